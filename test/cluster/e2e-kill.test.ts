// The end-to-end files about kill -9 once more, on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/kill-steps.test.ts');
await import('../e2e/command-burst.test.ts');
await import('../e2e/cli-follow.test.ts');
// A front hardly meets the store: on both in a deep run only.
if (process.env.ERRAND_TEST_DEEP === '1') await import('../e2e/fronts.test.ts');

export {};
