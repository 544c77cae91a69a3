// The checks of `npm run audit`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { installScripts, packageDifferences } from '../scripts/audit.ts';

test('no production dependency runs code at its installation', () => {
  assert.deepEqual(installScripts(), []);
});

test('the package holds exactly the intended files', () => {
  assert.deepEqual(packageDifferences(), { missing: [], unintended: [] });
});
