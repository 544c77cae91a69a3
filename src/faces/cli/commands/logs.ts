// `errand logs`: what a job printed. -f follows until it is over.
import { AppError } from '../../../errors.ts';
import type { Client } from '../client.ts';
import { command, wholeNumber, type CommandContext, type Words } from '../command.ts';
import { throughRestarts } from '../patience.ts';
import type { Program } from '../program.ts';
import { flagName, inputError } from '../words.ts';
import { readTail } from './tail.ts';

const tailBytesMax = 60_000;

const flags = {
  follow: { type: 'boolean', short: 'f', help: 'go on until the job is over' },
  tail: { type: 'string', short: 'n', value: 'N', help: 'only the last N lines' },
  errors: { type: 'boolean', short: 'e', help: 'only lines that look like errors' },
  grep: { type: 'string', value: 'TEXT', help: 'only lines with this text' },
  attempt: { type: 'string', value: 'N', help: 'an earlier attempt' },
  json: { type: 'boolean', help: 'print JSON, for scripts' },
} as const;

export const logs = command({
  summary: 'output of a job (-f: follow it)',
  about: 'Prints the output of a job; -f follows it until the job ends.',
  examples: ['errand logs -f tests', 'errand logs -n 20 @last', 'errand logs --errors tests'],
  args: 'ID',
  flags,
  async run(context, { values, positionals, usage }) {
    const [id] = positionals;
    if (id === undefined || positionals.length > 1) {
      throw new AppError('invalidInput', 'Name one job.', {
        hint: `${usage}. @last is the newest.`,
      });
    }
    if (looksFor(values) && values.follow) {
      throw new AppError('invalidInput', '--errors and --grep look at what is there already.', {
        hint: 'Leave -f out, or follow everything: errand logs -f ID | grep TEXT.',
      });
    }
    try {
      await print(context, id, values);
      return 0;
    } catch (error) {
      throw inputError(error, (field) => `--${flagName(field)}`, usage);
    }
  },
});

async function print(
  context: CommandContext,
  id: string,
  values: Words<typeof flags>['values'],
): Promise<void> {
  const client = await context.client();
  const tail = wholeNumber(values.tail, 'tail');
  const attempt = wholeNumber(values.attempt, 'attempt');
  const wish = { id, ...(attempt === undefined ? {} : { attempt }) };
  if (looksFor(values) || (values.json && !values.follow)) {
    const answer = await look(client, { ...wish, ...modeOf(values), ...lines(tail) });
    context.screen.out(values.json ? jsonLine(answer) : wholeLines(answer.text));
    return;
  }
  // Without a limit the whole output is wanted: it is streamed from its first byte, never held.
  let cursor = '0';
  const json = values.json === true;
  if (tail !== undefined) {
    const end = await readTail(client, { ...wish, lines: tail });
    for (const { stream, bytes } of end.parts)
      await writeItem(context.program, { stream, text: bytes }, json);
    cursor = end.cursor;
    if (!values.follow) return;
  }
  const once = values.follow ? {} : { once: true };
  await followOutput(context, client, { ...wish, cursor, json, ...once });
}

/**
 * Writes output as it comes, byte for byte; ends with the job (or, with `once`, at the present end). A restart of the server
 * in between is not seen: it goes on from the last byte.
 */
export async function followOutput(
  context: CommandContext,
  client: Client,
  wish: {
    id: string;
    attempt?: number;
    cursor?: string;
    once?: boolean;
    signal?: AbortSignal;
    /** Pieces as JSON, a line each, cleaned as `read_output` does it. */
    json?: boolean;
  },
): Promise<void> {
  const { program } = context;
  const input = {
    id: wish.id,
    ...(wish.attempt === undefined ? {} : { attempt: wish.attempt }),
    raw: !wish.json,
    lossless: true,
    ...(wish.once ? { once: true } : {}),
  };
  let { cursor } = wish;
  await throughRestarts(context, client, async (server, progress) => {
    const from = cursor === undefined ? {} : { cursor };
    for await (const item of server.follow('read_output', { ...input, ...from }, wish.signal)) {
      progress();
      await writeItem(program, item.data as OutputItem, wish.json);
      cursor = item.id ?? cursor;
      if (item.event === 'end') return;
    }
    // A stream without its last event: the server stops, the job goes on.
    return wish.once ? undefined : 'again';
  });
}

interface Looked {
  text: string;
  from: number;
  next: number;
  omitted?: string;
  streams?: unknown;
}

/** Not the output itself, but what is found in it. */
const looksFor = ({ errors, grep }: { errors?: boolean; grep?: string }): boolean =>
  errors === true || grep !== undefined;

const modeOf = ({ errors, grep }: { errors?: boolean; grep?: string }) =>
  errors ? { mode: 'errors' } : grep === undefined ? {} : { mode: 'grep', pattern: grep };

const lines = (tail: number | undefined) => (tail === undefined ? {} : { lines: tail });

/** What is there, as `read_output` answers it; the last lines of it where so many are asked for. */
async function look(
  client: Client,
  { lines: count, ...wish }: { id: string; attempt?: number; mode?: string; lines?: number },
): Promise<Looked> {
  const input = { ...wish, bytesMax: tailBytesMax };
  const { output } = await client.call<Looked>('read_output', input);
  if (count === undefined) return output;
  if (wish.mode !== undefined) return { ...output, text: lastLines(output.text, count) };
  const { parts } = await readTail(client, { ...wish, lines: count });
  const bytes = Buffer.concat(parts.map((part) => part.bytes));
  const { omitted: _, ...state } = output;
  const from = output.streams === undefined ? { from: output.next - bytes.length } : {};
  return { ...state, text: bytes.toString(), ...from };
}

const wholeLines = (text: string): string =>
  text === '' || text.endsWith('\n') ? text : `${text}\n`;

const lastLines = (text: string, count: number): string => {
  const lines = text.split(/(?<=\n)/);
  return lines.slice(Math.max(lines.length - count, 0)).join('');
};

const jsonLine = (value: unknown): string => `${JSON.stringify(value)}\n`;

interface OutputItem {
  text?: string | Buffer;
  base64?: string;
  stream?: string;
}

async function writeItem(program: Program, item: OutputItem, json = false): Promise<void> {
  const { text = '', base64, stream } = item;
  const bytes = base64 === undefined ? Buffer.from(text) : Buffer.from(base64, 'base64');
  const target = stream === 'stderr' && !json ? program.stderr : program.stdout;
  const shown = json ? jsonLine({ ...item, text: bytes.toString() }) : bytes;
  if (shown.length > 0 && !target.write(shown))
    await new Promise((resolve) => target.once('drain', resolve));
}
