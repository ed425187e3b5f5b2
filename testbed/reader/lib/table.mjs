// From a metadata file to the live data files of the current snapshot.
import { readAvro } from './avro.mjs';
import { readJSON } from './files.mjs';

// asMap turns Avro's rendering of a map with integer keys ([{key, value}]) into a Map.
function asMap(v) {
  const out = new Map();
  if (v == null) return out;
  for (const e of Array.isArray(v) ? v : Object.entries(v).map(([key, value]) => ({ key, value }))) out.set(Number(e.key), e.value);
  return out;
}

// load reads the table behind a metadata location. It refuses delete files: the writer makes none, and reading past
// one would answer wrongly.
export async function load(location) {
  const md = readJSON(location);
  const schema = md.schemas.find((s) => s['schema-id'] === md['current-schema-id']);
  const table = {
    metadata: location,
    uuid: md['table-uuid'],
    format: md['format-version'],
    location: md.location,
    properties: md.properties ?? {},
    schema,
    specs: new Map(md['partition-specs'].map((s) => [s['spec-id'], s.fields])),
    sortOrder: (md['sort-orders'] ?? []).find((o) => o['order-id'] === md['default-sort-order-id']),
    snapshots: (md.snapshots ?? []).length,
    snapshot: null,
    files: [],
    manifests: 0,
  };
  const current = md['current-snapshot-id'];
  if (current == null || String(current) === '-1') return table;
  const snapshot = md.snapshots.find((s) => String(s['snapshot-id']) === String(current));
  if (!snapshot) throw new Error(`read ${location}: snapshot ${current} is not in the list`);
  table.snapshot = snapshot;
  const seen = new Set();
  for (const m of (await readAvro(snapshot['manifest-list'])).records) {
    table.manifests++;
    if (m.content !== 0) throw new Error(`table ${table.uuid}: manifest ${m.manifest_path} holds delete files, which this reader does not apply`);
    let live = 0n;
    let rows = 0n;
    for (const e of (await readAvro(m.manifest_path)).records) {
      if (e.status === 2) continue;
      const f = e.data_file;
      if ((f.content ?? 0) !== 0) throw new Error(`table ${table.uuid}: ${f.file_path} is a delete file, which this reader does not apply`);
      if (seen.has(f.file_path)) throw new Error(`table ${table.uuid}: ${f.file_path} is live twice`);
      seen.add(f.file_path);
      live++;
      rows += f.record_count;
      table.files.push({
        path: f.file_path,
        format: f.file_format,
        rows: f.record_count,
        bytes: f.file_size_in_bytes,
        spec: m.partition_spec_id,
        partition: f.partition,
        sortOrder: f.sort_order_id ?? null,
        nulls: asMap(f.null_value_counts),
        values: asMap(f.value_counts),
        lower: asMap(f.lower_bounds),
        upper: asMap(f.upper_bounds),
      });
    }
    const told = (m.added_files_count ?? m.added_data_files_count ?? 0) + (m.existing_files_count ?? m.existing_data_files_count ?? 0);
    const toldRows = BigInt(m.added_rows_count ?? 0) + BigInt(m.existing_rows_count ?? 0);
    if (BigInt(told) !== live || toldRows !== rows) {
      throw new Error(`manifest ${m.manifest_path}: the list says ${told} files and ${toldRows} rows, the manifest has ${live} and ${rows}`);
    }
  }
  table.files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return table;
}

// manifestRows adds up the rows that the manifests claim.
export const manifestRows = (table) => table.files.reduce((n, f) => n + f.rows, 0n);

// decodeBound reads a bound's bytes as the field's type says; strings come as bytes, to be compared as bytes.
export function decodeBound(type, bytes) {
  const b = Buffer.from(bytes);
  switch (type) {
    case 'boolean':
      return b[0] !== 0;
    case 'int':
    case 'date':
      return BigInt(b.readInt32LE());
    case 'long':
    case 'timestamp':
    case 'timestamptz':
      return b.readBigInt64LE();
    case 'float':
      return b.readFloatLE();
    case 'double':
      return b.readDoubleLE();
    default:
      return b;
  }
}
