package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
)

// choose points the collector at a catalog and a warehouse, starts the servers they need, and says where the reader finds
// the tables. end stops the servers.
func choose(catalog string, opt *collector.Options) (place tables.Place, end func() error, err error) {
	switch catalog {
	case "sqlite":
		return tables.Place{Catalog: filepath.Join(opt.Data, "catalog.db")}, func() error { return nil }, nil
	case "postgres":
	default:
		return place, nil, fmt.Errorf("catalog %q: want sqlite or postgres", catalog)
	}
	pg, err := services.StartPostgres()
	if err != nil {
		return place, nil, err
	}
	s3, err := services.StartS3()
	if err != nil {
		return place, nil, errors.Join(err, pg.Close())
	}
	url := pg.Info()["url"]
	opt.Overlay = append(opt.Overlay, fmt.Sprintf(
		"extensions: {lakecompactor: {catalog: %q, warehouse: %q, s3: {endpoint: %q, region: %q, access_key_id: %q, secret_access_key: %q, path_style: true}}}\n",
		url, "s3://"+s3.Bucket+"/acceptance", s3.Endpoint, s3.Region, s3.AccessKey, s3.SecretKey))
	return tables.Place{Catalog: url, S3Root: s3.Root}, func() error { return errors.Join(pg.Close(), s3.Close()) }, nil
}
