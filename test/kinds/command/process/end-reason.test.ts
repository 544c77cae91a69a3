// Who ended an attempt: an exit record written after the end reason never has an earlier time.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeEndReason, readEndNote } from '../../../../src/kinds/command/process/end-reason.ts';
import { LaunchFolder } from '../../../../src/kinds/command/process/folder.ts';
import { tempFolder } from '../../../helpers/folder.ts';

test('an exit right after our signal counts as ended by us', (t) => {
  const home = tempFolder(t);
  for (let i = 0; i < 300; i++) {
    const folder = new LaunchFolder(join(home, String(i)));
    folder.create();
    writeEndReason(folder, 'cancel');
    writeFileSync(folder.exit, '\ncode 0\n0m0.000s 0m0.000s\n0m0.000s 0m0.000s\nend\n');
    const [ending, record] = [readEndNote(folder)!, folder.readExit()!];
    assert.equal(ending.reason, 'cancel');
    assert.ok(record.at >= ending.at, `${record.at} is before ${ending.at}`);
  }
});

test('the first reason is kept', (t) => {
  const folder = new LaunchFolder(join(tempFolder(t), 'one'));
  folder.create();
  assert.equal(readEndNote(folder), undefined);
  writeEndReason(folder, 'timeout');
  writeEndReason(folder, 'cancel');
  assert.equal(readEndNote(folder)!.reason, 'timeout');
});
