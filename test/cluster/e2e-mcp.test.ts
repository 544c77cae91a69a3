// The end-to-end file about the MCP faces once more, on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/mcp.test.ts');

export {};
