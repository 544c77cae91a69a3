// The product's own zod. A bare `zod` in a test would find the older copy that a third-party client brought along.
export { z } from '../../src/operation.ts';
