// The checks of `npm run audit`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { installScripts, packageDifferences } from '../scripts/audit.ts';

test('no production dependency runs an install script', () => {
  assert.deepEqual(installScripts(), []);
});

test('the package contains exactly the intended files', () => {
  assert.deepEqual(packageDifferences(), { missing: [], unintended: [] });
});
