// The end-to-end file about the command line once more, on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/cli.test.ts');

export {};
