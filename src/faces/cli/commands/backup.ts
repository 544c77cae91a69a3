// `errand backup` and `errand restore`.
import { resolve } from 'node:path';
import { AppError } from '../../../errors.ts';
import { command } from '../command.ts';
import { findServer } from '../connect.ts';

export const backup = command({
  summary: 'copy the database while the server runs',
  args: 'FILE',
  flags: { json: { type: 'boolean', help: 'print JSON, for scripts' } },
  async run({ client, screen }, { values, positionals, usage }) {
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'Name the file to write.', { hint: usage });
    const path = resolve(positionals[0]!);
    const { output } = await (
      await client()
    ).call<{ path: string; bytes: number }>('backup_store', { path });
    screen.out(
      values.json
        ? `${JSON.stringify(output)}\n`
        : `wrote ${output.path} (${output.bytes} bytes)\n`,
    );
    return 0;
  },
});

export const restore = command({
  summary: 'put a backup back',
  args: 'FILE',
  flags: {},
  async run({ program, screen }, { values, positionals, usage }) {
    if (positionals.length !== 1)
      throw new AppError('invalidInput', 'Name the backup to put back.', { hint: usage });
    const wish = values.home === undefined ? {} : { home: values.home };
    if (await findServer(program, values.home)) {
      throw new AppError('conflict', 'A server has this home open.', {
        hint: 'Stop it first with `errand stop`: a restore replaces its database.',
      });
    }
    const { home } = program.place(wish);
    await program.restore(home, resolve(positionals[0]!));
    screen.out(`restored ${home}; the database before is kept beside it\n`);
    return 0;
  },
});
