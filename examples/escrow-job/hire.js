// A client agent hires a provider agent. Each agent has its own wallet and knows only the key of that wallet.
import { connect } from '../api.js';
import { startServer } from '../temporary-server.js';

/** The delivery is accepted if it matches this schema. No person has to look at it. */
const rule = {
  type: 'json_schema',
  schema: { type: 'object', required: ['words'], properties: { words: { type: 'integer' } } },
};

async function hire(client, provider) {
  const job = await client.post('/api/work', {
    provider,
    budget: '2000000', // micro-units: 2.00
    title: 'Count the words',
    description: 'To be, or not to be: that is the question.',
    rule,
    fund: true,
    idempotencyKey: 'count-the-words-1', // Sending the same request again hires nobody twice.
  });
  console.log(`client: hired the provider for ${job.amount} (${job.stage})`);
  return job.id;
}

async function workOnFundedJobs(provider) {
  const { work } = await provider.get('/api/work?role=provider&stage=funded');
  for (const { id, title } of work) {
    const { specBytes } = await provider.get(`/api/work/${id}/spec?exact=true`);
    const { description } = JSON.parse(Buffer.from(specBytes, 'base64').toString());
    const content = JSON.stringify({ words: description.split(/\s+/).length });
    console.log(`provider: found ${title}, delivers ${content}`);
    await provider.post(`/api/work/${id}/submit`, { content });
  }
}

const server = await startServer();
try {
  const operator = connect(server.url, server.key);
  const clientWallet = await operator.post('/api/wallets', { name: 'client', withKey: true });
  const providerWallet = await operator.post('/api/wallets', { name: 'provider', withKey: true });
  await operator.post('/api/escrow/mint', {
    wallet: clientWallet.id,
    amount: '25.00',
    transferId: 'test-credit',
  });

  const client = connect(server.url, clientWallet.key);
  const provider = connect(server.url, providerWallet.key);
  const id = await hire(client, providerWallet.id);
  await workOnFundedJobs(provider);
  await client.post('/api/wait', { ids: [id] });

  const job = await client.get(`/api/jobs/${id}`);
  console.log('rule:', job.evaluation.reason, '→', job.outcome);
  for (const agent of [client, provider]) {
    const { wallets } = await agent.get('/api/wallets');
    console.log(`balance of the ${wallets[0].name}:`, wallets[0].balance);
  }
} finally {
  await server.stop();
}
