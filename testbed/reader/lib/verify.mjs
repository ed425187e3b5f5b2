// Does what the manifests say about a file hold for the file?
import fs from 'node:fs';
import { localPath } from './files.mjs';
import { decodeBound } from './table.mjs';
import { ident } from './parquet.mjs';

const scalar = new Set(['boolean', 'int', 'long', 'date', 'timestamp', 'timestamptz', 'float', 'double', 'string']);
const quote = (s) => `'${s.replaceAll("'", "''")}'`;

const raw = (v) => {
  if (typeof v === 'string') return Buffer.from(v, 'utf8');
  if (v !== null && typeof v === 'object' && 'micros' in v) return v.micros;
  return typeof v === 'number' && Number.isInteger(v) ? v : v;
};

// above says whether a > b for two values of one type.
function above(a, b) {
  if (Buffer.isBuffer(a)) return Buffer.compare(a, b) > 0;
  if (typeof a === 'bigint' || typeof b === 'bigint') return BigInt(a) > BigInt(b);
  return a > b;
}

// verify returns the list of what is wrong with the table: counts, sizes, bounds, null counts, partitions, order.
export async function verify(db, table) {
  const wrong = [];
  const fields = table.schema.fields.filter((f) => typeof f.type === 'string' && scalar.has(f.type));
  for (const f of table.files) {
    const path = localPath(f.path);
    const say = (text) => wrong.push(`${f.path}: ${text}`);
    const size = fs.statSync(path, { bigint: true }).size;
    if (size !== f.bytes) say(`the manifest says ${f.bytes} bytes, the file has ${size}`);
    const has = new Set((await db.runAndReadAll(`DESCRIBE SELECT * FROM read_parquet(${quote(path)})`)).getRows().map((r) => r[0]));
    const cols = fields.filter((c) => has.has(c.name));
    const parts = ['count(*)', 'count(DISTINCT CAST(timestamp AS DATE))', 'min(CAST(timestamp AS DATE))'];
    for (const c of cols) {
      const q = ident(c.name);
      const val = c.type === 'double' || c.type === 'float' ? `CASE WHEN isnan(${q}) THEN NULL ELSE ${q} END` : q;
      // Least and greatest values are asked for where a bound speaks of them: a column without bounds may be gigabytes of text.
      const bounded = f.lower.has(c.id) || f.upper.has(c.id);
      parts.push(`count(${q})`, bounded ? `min(${val})` : 'NULL', bounded ? `max(${val})` : 'NULL');
    }
    const row = (await db.runAndReadAll(`SELECT ${parts.join(', ')} FROM read_parquet(${quote(path)})`)).getRows()[0];
    if (row[0] !== f.rows) say(`the manifest says ${f.rows} rows, the file has ${row[0]}`);
    cols.forEach((c, i) => {
      const [count, min, max] = row.slice(3 + 3 * i, 6 + 3 * i);
      if (f.nulls.has(c.id) && f.nulls.get(c.id) !== row[0] - count) say(`${c.name}: null count ${f.nulls.get(c.id)}, the file has ${row[0] - count}`);
      if (min === null) return;
      if (f.lower.has(c.id)) {
        const lower = decodeBound(c.type, f.lower.get(c.id));
        if (above(lower, raw(min))) say(`${c.name}: lower bound ${lower} is above the least value ${String(min).slice(0, 80)}`);
      }
      if (f.upper.has(c.id)) {
        const upper = decodeBound(c.type, f.upper.get(c.id));
        if (above(raw(max), upper)) say(`${c.name}: upper bound ${upper} is below the greatest value ${String(max).slice(0, 80)}`);
      }
    });
    const spec = table.specs.get(f.spec) ?? [];
    if (spec.length === 0) say('it belongs to no partition spec with a field');
    for (const p of spec) {
      if (p.transform !== 'day') continue;
      const told = f.partition[p.name];
      if (told === null || told === undefined) {
        say(`it has no value for partition ${p.name}`);
        continue;
      }
      if (row[1] !== 1n) say(`${row[1]} days in one file of partition ${p.name}=${told}`);
      const days = row[2].days;
      if (Number(told) !== days) say(`partition ${p.name} is ${told}, the rows are of day ${days}`);
    }
    const order = (table.sortOrder?.fields ?? []).map((s) => table.schema.fields.find((c) => c.id === s['source-id'])?.name);
    if (order.length > 0 && order.every(Boolean)) {
      if (f.sortOrder !== table.sortOrder['order-id']) say(`sort order ${f.sortOrder} is recorded, the table's is ${table.sortOrder['order-id']}`);
      const key = order.length === 1 ? ident(order[0]) : `row(${order.map(ident).join(', ')})`;
      const bad = await db.runAndReadAll(`SELECT count(*) FROM (SELECT ${key} AS k, lag(${key}) OVER (ORDER BY file_row_number) AS p
        FROM read_parquet(${quote(path)}, file_row_number=true)) WHERE p > k`);
      if (bad.getRows()[0][0] !== 0n) say(`${bad.getRows()[0][0]} rows stand out of the declared order ${order.join(', ')}`);
    }
  }
  return wrong;
}
