// `errand logs`: prints job output. -f follows it until the job ends.
import { AppError } from '../../../errors.ts';
import type { Client } from '../client.ts';
import { command, wholeNumber, type CommandContext, type CommandArgs } from '../command.ts';
import { withReconnect } from '../reconnect.ts';
import type { Program } from '../program.ts';
import { flagName, inputError } from '../operation-command.ts';
import { readTail } from './tail.ts';
import type { readOutput as readOutputContract } from '../../../contracts/command.ts';
import type { OutputOf } from '../../../contract.ts';

const maxTailBytes = 60_000;

const flags = {
  follow: { type: 'boolean', short: 'f', help: 'follow the output until the job ends' },
  tail: { type: 'string', short: 'n', value: 'N', help: 'only the last N lines' },
  errors: { type: 'boolean', short: 'e', help: 'only lines that look like errors' },
  grep: { type: 'string', value: 'TEXT', help: 'only lines that contain TEXT' },
  attempt: { type: 'string', value: 'N', help: 'output of this attempt (default: the latest)' },
  json: { type: 'boolean', help: 'print JSON for scripts' },
} as const;

export const logs = command({
  summary: 'job output (-f: follow)',
  about: 'Prints the output of a job. With -f, follows it until the job ends.',
  examples: ['errand logs -f tests', 'errand logs -n 20 @last', 'errand logs --errors tests'],
  args: 'ID',
  flags,
  async run(context, { values, positionals, usage }) {
    const [id] = positionals;
    if (id === undefined || positionals.length > 1) {
      throw new AppError('invalidInput', 'Exactly one job is required.', {
        hint: `${usage}. @last is the newest job.`,
      });
    }
    if (isSearch(values) && values.follow) {
      throw new AppError('invalidInput', '--errors and --grep cannot be combined with --follow.', {
        hint: 'Remove -f, or filter the followed output: errand logs -f ID | grep TEXT',
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
  values: CommandArgs<typeof flags>['values'],
): Promise<void> {
  const client = await context.client();
  const tail = wholeNumber(values.tail, 'tail');
  const attempt = wholeNumber(values.attempt, 'attempt');
  const request = { id, ...(attempt === undefined ? {} : { attempt }) };
  if (isSearch(values) || (values.json && !values.follow)) {
    const response = await readOutput(client, {
      ...request,
      ...searchMode(values),
      ...lines(tail),
    });
    context.screen.out(values.json ? jsonLine(response) : wholeLines(response.text));
    return;
  }
  // The whole output is streamed from its first byte and never held in memory.
  let cursor = '0';
  const json = values.json === true;
  if (tail !== undefined) {
    const end = await readTail(client, { ...request, lines: tail });
    for (const { stream, bytes } of end.parts)
      await writeItem(context.program, { stream, text: bytes }, json);
    cursor = end.cursor;
    if (!values.follow) return;
  }
  const once = values.follow ? {} : { once: true };
  await followOutput(context, client, { ...request, cursor, json, ...once });
}

/**
 * Writes output byte for byte as it arrives, until the job ends or, with `once`, until the current end. After a server
 * restart it continues after the last byte.
 */
export async function followOutput(
  context: CommandContext,
  client: Client,
  request: {
    id: string;
    attempt?: number;
    cursor?: string;
    once?: boolean;
    signal?: AbortSignal;
    /** Writes each chunk as a JSON line, cleaned like the text of `read_output`. */
    json?: boolean;
  },
): Promise<void> {
  const { program } = context;
  const input = {
    id: request.id,
    ...(request.attempt === undefined ? {} : { attempt: request.attempt }),
    raw: !request.json,
    lossless: true,
    ...(request.once ? { once: true } : {}),
  };
  let { cursor } = request;
  await withReconnect(context, client, async (server, progress) => {
    const from = cursor === undefined ? {} : { cursor };
    for await (const item of server.follow('read_output', { ...input, ...from }, request.signal)) {
      progress();
      await writeItem(program, item.data as OutputItem, request.json);
      cursor = item.id ?? cursor;
      if (item.event === 'end') return;
    }
    // The stream ended without its last event: the server stopped, the job continues.
    return request.once ? undefined : 'again';
  });
}

type OutputText = OutputOf<typeof readOutputContract>;

/** Whether only matching lines are wanted. */
const isSearch = ({ errors, grep }: { errors?: boolean; grep?: string }): boolean =>
  errors === true || grep !== undefined;

const searchMode = ({ errors, grep }: { errors?: boolean; grep?: string }) =>
  errors
    ? ({ mode: 'errors' } as const)
    : grep === undefined
      ? {}
      : ({ mode: 'grep', pattern: grep } as const);

const lines = (tail: number | undefined) => (tail === undefined ? {} : { lines: tail });

/** Returns the current output like `read_output`, or only its last `lines` lines. */
async function readOutput(
  client: Client,
  {
    lines: count,
    ...request
  }: { id: string; attempt?: number; mode?: OutputText['mode']; lines?: number },
): Promise<OutputText> {
  const input = { ...request, maxBytes: maxTailBytes };
  const { output } = await client.call<typeof readOutputContract>('read_output', input);
  if (count === undefined) return output;
  if (request.mode !== undefined) return { ...output, text: lastLines(output.text, count) };
  const { parts } = await readTail(client, { ...request, lines: count });
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
  const chunk = json ? jsonLine({ ...item, text: bytes.toString() }) : bytes;
  if (chunk.length > 0 && !target.write(chunk))
    await new Promise((resolve) => target.once('drain', resolve));
}
