// Repeats the test of failed work on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/failed-work.test.ts');

export {};
