// Adds a hint to errors about refused addresses: the flag that allows the address once, and the config.json line that
// allows it permanently.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ErrorBody } from '../../errors.ts';
import { isRecord } from '../../runtime/json.ts';
import type { Program } from './program.ts';

type ErrorWithHint = ErrorBody & { hint: string };

export function withEgressHint(
  program: Pick<Program, 'env' | 'place'>,
  body: ErrorWithHint,
): ErrorWithHint {
  const entry = body.data?.allow;
  if (body.code !== 'egressRefused' || typeof entry !== 'string') return body;
  // config.json of a remote server is not on this machine.
  if (program.env.ERRAND_URL) return body;
  const file = join(program.place({}).home, 'config.json');
  const { how, line } = configEdit(file, entry);
  const hint =
    (body.data?.allowsPrivate === true
      ? 'To allow it once, add --allow-private to the command.\n'
      : '') +
    `To allow it permanently (setting egress.allow), ${how}:\n  ${line}\n` +
    'Then restart the server: errand stop';
  return { ...body, hint };
}

/** Returns a line that can be pasted unchanged; it keeps the existing egress settings. */
function configEdit(file: string, entry: string): { how: string; line: string } {
  const text = readText(file);
  const config = parseConfig(text);
  const egress = isRecord(config.egress) ? config.egress : {};
  const allowed = Array.isArray(egress.allow) ? (egress.allow as unknown[]) : [];
  const members = Object.entries({ ...egress, allow: [...allowed, entry] });
  const value = members.map(([name, part]) => `"${name}": ${JSON.stringify(part)}`).join(', ');
  const line = `"egress": { ${value} }`;
  if (text.trim() === '') return { how: `write this line to ${file}`, line: `{ ${line} }` };
  const at = text.split('\n').findIndex((part) => /"egress"\s*:/.test(part));
  if (at >= 0) return { how: `replace "egress" in line ${at + 1} of ${file} with`, line };
  const comma = Object.keys(config).length > 0 ? ',' : '';
  return { how: `add this line after the first brace of ${file}`, line: line + comma };
}

function readText(file: string): string {
  try {
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  } catch {
    return ''; // loading the settings reports an unreadable file
  }
}

function parseConfig(text: string): Record<string, unknown> {
  try {
    const config = JSON.parse(text) as unknown;
    return isRecord(config) ? config : {};
  } catch {
    return {};
  }
}
