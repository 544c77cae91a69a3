// The generated requests once more, where the ledger is PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../properties.test.ts');

export {};
