// Package objstore reaches object stores. It is the one package of this repository that knows a cloud SDK.
package objstore
