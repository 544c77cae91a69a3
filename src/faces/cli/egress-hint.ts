// An address that was refused: what allows it once, and the file and line that allow it for good.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ErrorBody } from '../../errors.ts';
import { isRecord } from '../../runtime/json.ts';
import type { Program } from './program.ts';

type Told = ErrorBody & { hint: string };

export function withEgressHint(program: Program, body: Told): Told {
  const entry = body.data?.allow;
  if (body.code !== 'egressRefused' || typeof entry !== 'string') return body;
  // The settings of a server elsewhere are in a file of that machine.
  if (program.env.ERRAND_URL) return body;
  const file = join(program.place({}).home, 'config.json');
  const hint =
    (body.data?.allowsPrivate === true
      ? 'To allow it once, add --allow-private to the command.\n'
      : '') +
    `To allow it always, write this line (setting egress.allow) in ${file}:\n` +
    `  "egress": { "allow": ${JSON.stringify([...allowedIn(file), entry])} }\n` +
    'Then restart the server: errand stop';
  return { ...body, hint };
}

/** What the file allows already; a file that cannot be read is somebody else's problem. */
function allowedIn(file: string): unknown[] {
  if (!existsSync(file)) return [];
  try {
    const config = JSON.parse(readFileSync(file, 'utf8')) as unknown;
    const egress = isRecord(config) ? config.egress : undefined;
    return isRecord(egress) && Array.isArray(egress.allow) ? egress.allow : [];
  } catch {
    return [];
  }
}
