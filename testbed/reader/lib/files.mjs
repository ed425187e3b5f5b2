// Paths and JSON as Iceberg writes them.
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';

let s3Root; // the folder of an S3 server that keeps objects as plain files

// setS3Root says where the object s3://BUCKET/KEY is: DIR/BUCKET/KEY.
export function setS3Root(dir) {
  s3Root = dir;
}

// localPath turns a location (bare path, file: URL, or s3: URL where the server's folder is known) into a path.
export function localPath(location) {
  if (location.startsWith('s3://') && s3Root) return path.join(s3Root, location.slice('s3://'.length));
  if (location.startsWith('file://')) return fileURLToPath(location);
  if (location.startsWith('file:')) return location.slice('file:'.length);
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(location)) throw new Error(`read ${location}: only local files are supported, and s3:// with --s3-root`);
  return location;
}

// parseExact parses JSON and keeps integers that a double cannot hold as strings: snapshot ids are 64 bits wide.
export function parseExact(text) {
  return JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?=\s*[,}\]])/g, (m) => (m[0] === '"' ? m : `"${m}"`)));
}

// readJSON reads a JSON file, gzipped or not.
export function readJSON(location) {
  let data = fs.readFileSync(localPath(location));
  if (data[0] === 0x1f && data[1] === 0x8b) data = zlib.gunzipSync(data);
  return parseExact(data.toString('utf8'));
}
