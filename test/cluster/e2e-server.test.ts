// The end-to-end file about the server's life once more, on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/server.test.ts');

export {};
