// Would a reader that leaves out files by their bounds lose rows? Judged for each bounded column by this module's own
// reading of the bounds, for =, < and >, at values that are there and at the bounds themselves.
import { localPath } from './files.mjs';
import { decodeBound } from './table.mjs';
import { ident } from './parquet.mjs';

// Strings come as bytes, and compare as such.
const compare = (a, b) => (Buffer.isBuffer(a) ? Buffer.compare(a, b) : a < b ? -1 : a > b ? 1 : 0);

// literal spells a value for SQL.
function literal(type, v) {
  if (Buffer.isBuffer(v)) return `decode('${[...v].map((c) => `\\x${c.toString(16).padStart(2, '0')}`).join('')}'::BLOB)`;
  switch (type) {
    case 'timestamptz':
      return `make_timestamptz(${v})`;
    case 'boolean':
      return String(v);
    case 'double':
      return `'${Object.is(v, -0) ? '-0.0' : v}'::DOUBLE`;
    default:
      return `'${v}'::BIGINT`;
  }
}

// keeps says whether a file with these bounds may hold a row with column OP v. A bound that is not there says nothing.
function keeps(op, lower, upper, v) {
  const notAbove = lower === undefined || compare(lower, v) <= 0;
  const notBelow = upper === undefined || compare(upper, v) >= 0;
  if (op === '=') return notAbove && notBelow;
  if (op === '<') return lower === undefined || compare(lower, v) < 0;
  return upper === undefined || compare(upper, v) > 0;
}

const isText = (b) => Buffer.compare(Buffer.from(b.toString('utf8'), 'utf8'), b) === 0;

// probes are values worth asking for: bounds of some files, and the numbers next to them.
function probes(table, column) {
  const out = new Map();
  for (const f of table.files) {
    for (const map of [f.lower, f.upper]) {
      if (!map.has(column.id)) continue;
      const v = decodeBound(column.type, map.get(column.id));
      if (Buffer.isBuffer(v) ? !isText(v) || v.includes(0) : Number.isNaN(v)) continue; // SQL text has no NUL
      out.set(Buffer.isBuffer(v) ? v.toString('hex') : String(v), v);
      if (typeof v === 'bigint' && column.type !== 'timestamptz') for (const n of [v - 1n, v + 1n]) if (BigInt.asIntN(63, n) === n) out.set(String(n), n);
    }
  }
  const all = [...out.values()];
  const step = Math.max(1, Math.floor(all.length / 12));
  return all.filter((_, i) => i % step === 0);
}

// prune returns what is wrong, and in counts how many files would have been read and left out.
export async function prune(db, table, counts = { kept: 0, left: 0 }) {
  const wrong = [];
  if (table.files.length === 0) return wrong;
  for (const column of table.schema.fields) {
    if (typeof column.type !== 'string') continue;
    const asked = probes(table, column).flatMap((v) => ['=', '<', '>'].map((op) => ({ op, v })));
    if (asked.length === 0) continue;
    const q = column.type === 'double' ? `CASE WHEN isnan(${ident(column.name)}) THEN NULL ELSE ${ident(column.name)} END` : ident(column.name);
    const rows = (await db.runAndReadAll(`SELECT _file, ${asked.map((a) => `count(*) FILTER (WHERE ${q} ${a.op} ${literal(column.type, a.v)})`).join(', ')} FROM t GROUP BY _file`)).getRows();
    const found = new Map(rows.map((r) => [r[0], r.slice(1)]));
    for (const f of table.files) {
      const path = localPath(f.path);
      const [lower, upper] = [f.lower, f.upper].map((m) => (m.has(column.id) ? decodeBound(column.type, m.get(column.id)) : undefined));
      asked.forEach((a, i) => {
        if (keeps(a.op, lower, upper, a.v)) counts.kept++;
        else {
          counts.left++;
          if (found.get(path)[i] > 0n) wrong.push(`${f.path}: ${column.name} ${a.op} ${a.v}: left out by its bounds, and has ${found.get(path)[i]} such rows`);
        }
      });
    }
  }
  return wrong;
}
