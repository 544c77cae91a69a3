// Where a home is: one place by whatever way it is named.
import assert from 'node:assert/strict';
import { mkdirSync, realpathSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { homePlace, usualHome } from '../src/config-place.ts';
import { tempFolder } from './helpers/folder.ts';

test('a home behind a link is the same home with the same socket, also before it exists', (t) => {
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

test('a variable that is set to nothing names no home', () => {
  const usual = usualHome({});
  assert.equal(homePlace(undefined, { ERRAND_HOME: '', XDG_DATA_HOME: '' }).home, usual);
  assert.equal(homePlace(undefined, {}).home, usual);
});
