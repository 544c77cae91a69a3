// The same limits and the same recovery where the ledger is PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/boundary.test.ts');

export {};
