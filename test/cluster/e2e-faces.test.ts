// The end-to-end files about the server's life and its faces once more, on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/server.test.ts');
await import('../e2e/cli.test.ts');
await import('../e2e/mcp.test.ts');

export {};
