// Where a home is: one place by whatever way it is named.
import assert from 'node:assert/strict';
import { mkdirSync, realpathSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { homePlace, defaultHome } from '../src/config-place.ts';
import { tempFolder } from './helpers/folder.ts';

test('a symlinked home is the same home with the same socket, even before it exists', (t) => {
  const folder = realpathSync(tempFolder(t));
  mkdirSync(join(folder, 'real'));
  symlinkSync('real', join(folder, 'link'));
  for (const name of ['', 'new/home'])
    assert.deepEqual(
      homePlace(undefined, { ERRAND_HOME: join(folder, 'link', name) }),
      homePlace(join(folder, 'real', name), {}),
    );
  assert.equal(homePlace(join(folder, 'link'), {}).home, join(folder, 'real'));
});

test('an empty ERRAND_HOME is ignored', () => {
  const expected = defaultHome({});
  assert.equal(homePlace(undefined, { ERRAND_HOME: '', XDG_DATA_HOME: '' }).home, expected);
  assert.equal(homePlace(undefined, {}).home, expected);
});
