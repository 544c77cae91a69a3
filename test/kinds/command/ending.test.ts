// Whose end it was: a record that came after our note is never older than it, however soon it came.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { noteEnding, readEnding } from '../../../src/kinds/command/process/ending.ts';
import { LaunchFolder } from '../../../src/kinds/command/process/folder.ts';
import { tempFolder } from '../../helpers/folder.ts';

test('an end right after our signal counts as ours', (t) => {
  const home = tempFolder(t);
  for (let i = 0; i < 300; i++) {
    const folder = new LaunchFolder(join(home, String(i)));
    folder.create();
    noteEnding(folder, 'cancel');
    writeFileSync(folder.exit, '\ncode 0\n0m0.000s 0m0.000s\n0m0.000s 0m0.000s\nend\n');
    const [ending, record] = [readEnding(folder)!, folder.readExit()!];
    assert.equal(ending.reason, 'cancel');
    assert.ok(record.at >= ending.at, `${record.at} is before ${ending.at}`);
  }
});

test('the first reason stays', (t) => {
  const folder = new LaunchFolder(join(tempFolder(t), 'one'));
  folder.create();
  assert.equal(readEnding(folder), undefined);
  noteEnding(folder, 'timeout');
  noteEnding(folder, 'cancel');
  assert.equal(readEnding(folder)!.reason, 'timeout');
});
