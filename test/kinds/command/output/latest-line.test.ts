// The latest line of a running command, for progress messages.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../../../helpers/folder.ts';
import { awaitFile } from '../../../helpers/process.ts';
import { until } from '../../../helpers/until.ts';
import { start } from '../kit.ts';

test('the latest line is cleaned, short, and from the stream that changed last', async (t) => {
  const { app, background, cancel } = await start(t);
  const folder = tempFolder(t);
  const steps = [
    String.raw`printf '\033[31mstep 1\033[0m\n\n'`,
    awaitFile(join(folder, 'a')),
    String.raw`printf '10 %%\r90 %%' >&2`,
    awaitFile(join(folder, 'never')),
  ];
  const latest = async (id: string) => {
    const job = await app.jobs.get(id);
    return app.jobs.kind('command').latestLine!(job);
  };
  const silent = await background({ command: awaitFile(join(folder, 'never')) });
  assert.equal(await latest(silent.id), undefined, 'nothing was printed');
  const { id } = await background({ command: steps.join('\n'), streams: 'split' });
  await until('its first line is seen', async () => (await latest(id)) === 'step 1');
  writeFileSync(join(folder, 'a'), '');
  await until('its second line is seen', async () => (await latest(id)) === '90 %');
  await Promise.all([cancel(id), cancel(silent.id)]);
});
