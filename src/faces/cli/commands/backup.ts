// `errand backup` and `errand restore`.
import { resolve } from 'node:path';
import { AppError } from '../../../errors.ts';
import { command } from '../command.ts';
import { findServer } from '../connect.ts';
import { sizeText } from '../../../runtime/units.ts';

export const backup = command({
  summary: 'copy the database while the server runs (--with-output: and the output)',
  about:
    'Writes a copy of the database to a file while the server runs. With --with-output the output of jobs is copied to the folder FILE.files beside it. Settings, keys and secrets of the home are not part of a backup.',
  examples: ['errand backup errand.backup', 'errand backup --with-output errand.backup'],
  args: 'FILE',
  flags: {
    'with-output': { type: 'boolean', help: 'also copy the output of jobs (to FILE.files)' },
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run({ client, screen }, { values, positionals, usage }) {
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'Name the file to write.', { hint: usage });
    const path = resolve(positionals[0]!);
    const withOutput = values['with-output'] === true;
    const { output } = await (
      await client()
    ).call<Saved>('backup_store', { path, ...(withOutput ? { withOutput } : {}) });
    if (values.json) screen.out(`${JSON.stringify(output)}\n`);
    else screen.out(savedText(output));
    return 0;
  },
});

interface Saved {
  path: string;
  bytes: number;
  outputFiles?: number;
  outputBytes?: number;
}

function savedText({ path, bytes, outputFiles, outputBytes = 0 }: Saved): string {
  const database = `wrote ${path} (${sizeText(bytes)})`;
  return outputFiles === undefined
    ? `${database}: database only, without the output of jobs (--with-output adds it)\n`
    : `${database} and ${path}.files (${outputFiles} files, ${sizeText(outputBytes)} of output)\n`;
}

export const restore = command({
  summary: 'put a backup back',
  about:
    'Puts a backup in the place of the database of a home, and the output of jobs where the backup has it. The server must be stopped; the database before is kept in the home.',
  examples: [
    'errand stop',
    'errand restore errand.backup',
    'errand restore errand.backup --home DIR',
  ],
  args: 'FILE',
  flags: {},
  async run({ program, screen }, { positionals, usage }) {
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'Name the backup to put back.', { hint: usage });
    const { home } = program.place({});
    if (await findServer(program)) {
      throw new AppError('conflict', 'A server has this home open.', {
        hint: 'Stop it first with `errand stop`: a restore replaces its database.',
      });
    }
    const output = await program.restore(home, resolve(positionals[0]!));
    const what = output
      ? `the database and ${output.files} files of output`
      : 'the database only: output of jobs that is not in this home is missing';
    screen.out(
      `restored ${home}: ${what}\n` +
        'An earlier database is kept beside it. config.json, env, owner.key and secret are not part of a backup:\n' +
        'copy them from the old home to keep its settings, its key and the signatures of its webhooks.\n',
    );
    return 0;
  },
});
