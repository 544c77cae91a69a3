// The parts of escrow operations that these views show, and quoted texts as people read them.
export interface Work {
  id: string;
  stage: string;
  title?: string;
  name?: string;
  budget: string;
  amount: string;
  proposed?: { budget: string; amount: string; by: string };
  currency: string;
  settlement: string;
  client: string;
  provider: string;
  evaluator?: string;
  yourRoles?: string[];
  availableActions: string[];
  nextActor?: string;
  deadline?: string;
  expiresAt?: string;
  held?: string;
  settling?: string;
  onSilence?: string;
  risk?: string;
  outcome?: string;
  deliverable?: { hash: string; uri?: string; at: string };
  milestones?: { title: string; amount: string; state: string }[];
  evaluation: {
    rule: string;
    silence?: string;
    outcome?: string;
    reason?: string;
    by?: string;
    at?: string;
    checks?: { criterion: string; met: boolean; evidence: string }[];
    waitingBecause?: string;
    votes?: { member: number; outcome: string; by: string }[];
  };
  dispute?: {
    by: string;
    at: string;
    reason?: string;
    resolution?: { answer: string; by: string; at: string; reason?: string };
  };
  transactions: { kind: string; id: string; amount: string; at: string }[];
  specHash: string;
}

export interface Wallet {
  id: string;
  name?: string;
  owner?: string;
  status: string;
  balance: string;
  currency: string;
  limits: { perTransaction?: string; perDay?: string; allowlist?: string[]; expiresAt?: string };
}

/** Text of other parties comes between delimiters for models. Here it is marked by its box. */
export const unfenced = (text: string): string =>
  text.replace(/^<untrusted-[0-9a-f]+>[^\n]*\n/, '').replace(/\n<\/untrusted-[0-9a-f]+>$/, '');

export const walletName = (wallets: readonly Wallet[], id: string): string =>
  wallets.find((wallet) => wallet.id === id)?.name ?? id;
