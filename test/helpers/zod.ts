// The product's own zod. A bare `zod` import in a test would resolve to the older copy of a third-party client.
export { z } from '../../src/operation.ts';
