// `errand backup` and `errand restore`: copy the database of a home to a file, and back.
import { resolve } from 'node:path';
import { AppError } from '../../../errors.ts';
import { command } from '../command.ts';
import { findServer } from '../connect.ts';
import { sizeText } from '../../../runtime/units.ts';
import type { backupStore } from '../../../contracts/server.ts';
import type { OutputOf } from '../../../contract.ts';

export const backup = command({
  summary: 'copy the database while the server runs (--with-output: and job output)',
  about:
    'Copies the database to a file while the server runs. With --with-output, job output is copied to the folder FILE.files. Settings, keys and secrets of the home are not part of a backup.',
  examples: ['errand backup errand.backup', 'errand backup --with-output errand.backup'],
  args: 'FILE',
  flags: {
    'with-output': { type: 'boolean', help: 'also copy job output to FILE.files' },
    json: { type: 'boolean', help: 'print JSON for scripts' },
  },
  async run({ client, screen }, { values, positionals, usage }) {
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'The file to write is required.', { hint: usage });
    const path = resolve(positionals[0]!);
    const withOutput = values['with-output'] === true;
    const { output } = await (
      await client()
    ).call<typeof backupStore>('backup_store', { path, ...(withOutput ? { withOutput } : {}) });
    if (values.json) screen.out(`${JSON.stringify(output)}\n`);
    else screen.out(backupText(output));
    return 0;
  },
});

function backupText({
  path,
  bytes,
  outputFiles,
  outputBytes = 0,
}: OutputOf<typeof backupStore>): string {
  const database = `wrote ${path} (${sizeText(bytes)})`;
  return outputFiles === undefined
    ? `${database}: database only, without job output (--with-output adds it)\n`
    : `${database} and ${path}.files (${outputFiles} files, ${sizeText(outputBytes)} of output)\n`;
}

export const restore = command({
  summary: 'restore a backup',
  about:
    'Replaces the database of a home with a backup, and restores job output if the backup contains it. The server must be stopped. The previous database is kept in the home.',
  examples: [
    'errand stop',
    'errand restore errand.backup',
    'errand restore errand.backup --home DIR',
  ],
  args: 'FILE',
  flags: {},
  async run({ program, screen }, { positionals, usage }) {
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'The backup file is required.', { hint: usage });
    const { home } = program.place({});
    if (await findServer(program)) {
      throw new AppError('conflict', 'The server of this home is running.', {
        hint: 'Stop it with `errand stop`, then try again.',
      });
    }
    const output = await program.restore(home, resolve(positionals[0]!));
    const what = output
      ? `database and ${output.files} output files`
      : 'database only; job output that is not already in this home is missing';
    screen.out(
      `restored ${home}: ${what}\n` +
        'The previous database is kept in the home. config.json, env, owner.key and secret are not part of a backup:\n' +
        'copy them from the old home to keep its settings, its key and its webhook signatures.\n',
    );
    return 0;
  },
});
