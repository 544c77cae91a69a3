// Repeats the limit and recovery tests on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/boundary.test.ts');

export {};
