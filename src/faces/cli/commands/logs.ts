// `errand logs`: what a job printed. -f follows until it is over.
import { AppError } from '../../../errors.ts';
import type { Client } from '../client.ts';
import { command, wholeNumber, type CommandContext } from '../command.ts';
import { throughRestarts } from '../patience.ts';
import type { Program } from '../program.ts';

const tailBytesMax = 60_000;

export const logs = command({
  summary: 'what a job printed; -f follows',
  area: 'jobs',
  args: 'ID',
  flags: {
    follow: { type: 'boolean', short: 'f', help: 'go on until the job is over' },
    tail: { type: 'string', value: 'N', help: 'only the last N lines' },
    errors: { type: 'boolean', help: 'only the last lines that look like trouble' },
    grep: { type: 'string', value: 'TEXT', help: 'only lines with this text' },
    attempt: { type: 'string', value: 'N', help: 'an earlier attempt' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run(context, { values, positionals, usage }) {
    const [id] = positionals;
    if (id === undefined || positionals.length > 1) {
      throw new AppError('invalidInput', 'Name one job.', { hint: usage });
    }
    const part = values.json || values.errors || values.grep !== undefined;
    if (part && (values.tail !== undefined || values.follow)) {
      throw new AppError(
        'invalidInput',
        '--tail and --follow do not go with --json, --errors and --grep.',
        { hint: usage },
      );
    }
    const client = await context.client();
    const tail = wholeNumber(values.tail, 'tail');
    const attempt = wholeNumber(values.attempt, 'attempt');
    const wish = { id, ...(attempt === undefined ? {} : { attempt }) };
    const mode = values.errors
      ? { mode: 'errors' }
      : values.grep === undefined
        ? {}
        : { mode: 'grep', pattern: values.grep };
    if (part) {
      const input = { ...wish, ...mode, bytesMax: tailBytesMax };
      const { output } = await client.call<{ text: string }>('read_output', input);
      context.screen.out(values.json ? `${JSON.stringify(output)}\n` : wholeLines(output.text));
      return 0;
    }
    if (tail !== undefined) {
      const cursor = await printTail(context, client, { ...wish, lines: tail });
      if (values.follow) await followOutput(context, client, { ...wish, cursor });
      return 0;
    }
    // Without a limit the whole output is wanted: it is streamed from its first byte, never held.
    await followOutput(context, client, {
      ...wish,
      cursor: '0',
      ...(values.follow ? {} : { once: true }),
    });
    return 0;
  },
});

/**
 * Writes output as it comes, byte for byte; ends with the job (or, with `once`, at the present end). A restart of the server
 * in between is not seen: it goes on from the last byte.
 */
export async function followOutput(
  context: CommandContext,
  client: Client,
  wish: { id: string; attempt?: number; cursor?: string; once?: boolean; signal?: AbortSignal },
): Promise<void> {
  const { program } = context;
  const input = {
    id: wish.id,
    ...(wish.attempt === undefined ? {} : { attempt: wish.attempt }),
    raw: true,
    lossless: true,
    ...(wish.once ? { once: true } : {}),
  };
  let { cursor } = wish;
  await throughRestarts(context, client, async (server, progress) => {
    const from = cursor === undefined ? {} : { cursor };
    for await (const item of server.follow('read_output', { ...input, ...from }, wish.signal)) {
      progress();
      await writeItem(program, item.data as OutputItem);
      cursor = item.id ?? cursor;
      if (item.event === 'end') return;
    }
    // A stream without its last event: the server stops, the job goes on.
    return wish.once ? undefined : 'again';
  });
}

const wholeLines = (text: string): string =>
  text === '' || text.endsWith('\n') ? text : `${text}\n`;

interface OutputItem {
  text?: string;
  base64?: string;
  stream?: string;
}

async function writeItem(program: Program, { text, base64, stream }: OutputItem): Promise<void> {
  const bytes = base64 === undefined ? Buffer.from(text ?? '') : Buffer.from(base64, 'base64');
  const target = stream === 'stderr' ? program.stderr : program.stdout;
  if (bytes.length > 0 && !target.write(bytes))
    await new Promise((resolve) => target.once('drain', resolve));
}

interface Reading {
  text: string;
  from: number;
  next: number;
  streams?: { stream: string }[];
}

/** The last lines of each stream; answers the cursor to follow from. */
async function printTail(
  { screen }: CommandContext,
  client: Client,
  { lines: count, ...wish }: { id: string; attempt?: number; lines: number },
): Promise<string> {
  const read = async (more: object) => {
    const input = { ...wish, mode: 'tail', raw: true, bytesMax: tailBytesMax, ...more };
    return (await client.call<Reading>('read_output', input)).output;
  };
  const { streams } = await read({});
  if (!streams) {
    const { text, next } = await lastLines(read, count);
    screen.out(text);
    return String(next);
  }
  const cursors: string[] = [];
  for (const { stream } of streams) {
    const { text, next } = await lastLines((more) => read({ ...more, stream }), count);
    if (stream === 'stderr') screen.err(text);
    else screen.out(text);
    cursors.push(`${stream}:${next}`);
  }
  return cursors.join(',');
}

/** An answer holds only so much: one before the other is asked for until there are enough lines. */
async function lastLines(
  read: (more: object) => Promise<Reading>,
  count: number,
): Promise<{ text: string; next: number }> {
  const { text: end, from, next } = await read({});
  let lines = end.split(/(?<=\n)/);
  for (let to = from; to > 0 && lines.length <= count;) {
    const before = await read({ to });
    if (before.text === '') break;
    lines = [...(before.text + lines[0]).split(/(?<=\n)/), ...lines.slice(1)];
    to = before.from;
  }
  return { text: lines.slice(Math.max(lines.length - count, 0)).join(''), next };
}
