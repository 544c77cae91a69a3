// Wallets: owners, spending limits, freezing, and internal credit that an operator mints explicitly.
import { hash } from 'node:crypto';
import type { Access, NewKey } from '../../access/keys.ts';
import { heldScopes } from '../../access/grants.ts';
import { AppError } from '../../errors.ts';
import { randomId } from '../../runtime/id.ts';
import type { Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { quoted } from '../../runtime/untrusted-text.ts';
import { formatUnits, maxSupplyMicro } from './money.ts';
import { noPolicy, type Policy, type Wallet } from './store/rows.ts';
import { genesis, worldAccount } from './settlement/ledger/book.ts';
import { transferSteps } from './store/entries.ts';
import type { EscrowSettings } from './settings.ts';
import type { EscrowStore } from './store/store.ts';

const maxConflicts = 100;
const maxWalletsShown = 100;
/** How long a claim can be repeated if its response was lost. */
const claimAgainMs = 600_000;

/** Creates an address with an encrypted key, for settlements that sign; otherwise the address is derived from the id. */
export type MakeAddress = () => Promise<{ address: string; secret: string }>;

export class Wallets {
  private readonly store: EscrowStore;
  private readonly clock: Clock;
  private readonly makeAddress: MakeAddress | undefined;

  constructor(store: EscrowStore, clock: Clock, makeAddress?: MakeAddress) {
    this.store = store;
    this.clock = clock;
    this.makeAddress = makeAddress;
  }

  /** Creates an unowned wallet, which anybody with the claim key can claim. */
  async open(name: string | null): Promise<{ wallet: Wallet; claimKey: string }> {
    const claimKey = randomId('czk_', 32);
    const wallet = await this.create(claimOwner(claimKey), name, {}, 'pending');
    return { wallet, claimKey };
  }

  /** Sets owner and first key and stores the claim in one commit. If the response was lost, the owner can claim again. */
  async claim(
    claimKey: string,
    caller: Caller,
    { access, settings }: { access: Access; settings: EscrowSettings },
  ): Promise<{ wallet: Wallet; key: string }> {
    const { owner } = caller;
    const name = claimOwner(claimKey);
    const now = this.clock.now();
    const [wallet] = await this.store.walletsOf(name, 1);
    if (!wallet) return this.claimAgain(name, caller, access);
    if (now - wallet.createdAt > settings.maxClaimMs) throw claimKeyInvalid();
    // The name comes from the caller who opened the wallet: it stays quoted until the owner sets another one.
    const given = wallet.name === null ? null : quoted(wallet.name);
    const after: Wallet = { ...wallet, owner, name: given, status: 'active' };
    const made = access.plan(walletKeyRequest(after, caller), caller);
    const entry = { key: name, body: owner, ref: wallet.id, until: now + claimAgainMs };
    const { applied } = await this.store.store.commit([
      this.store.updateWallet(wallet, after),
      this.store.rememberKey(entry, now),
      ...made.steps,
    ]);
    if (!applied) return this.claimAgain(name, caller, access);
    return { wallet: { ...after, version: wallet.version + 1 }, key: made.key };
  }

  private async claimAgain(name: string, caller: Caller, access: Access) {
    const known = await this.store.remembered(name, this.clock.now());
    if (!known || known.body !== caller.owner) throw claimKeyInvalid();
    const wallet = await this.store.wallet(known.ref);
    const roles = ['client', 'provider', 'evaluator'] as const;
    const works = await Promise.all(
      roles.map((role) => this.store.works.countWork(wallet.id, role)),
    );
    if (wallet.seq > 0 || works.some((count) => count > 0)) throw claimKeyInvalid();
    return { wallet, key: await this.newKey(access, wallet, caller, true) };
  }

  async create(
    owner: string,
    name: string | null,
    policy: Partial<Policy> = {},
    status: Wallet['status'] = 'active',
  ): Promise<Wallet> {
    const id = randomId('wal_');
    const made = await this.makeAddress?.();
    const wallet: Wallet = {
      id,
      kind: 'wallet',
      balance: 0,
      version: 1,
      seq: 0,
      head: genesis(id),
      owner,
      name,
      status,
      address: made?.address.toLowerCase() ?? `0x${hash('sha256', id).slice(0, 40)}`,
      policy: { ...noPolicy, ...policy },
      day: null,
      spent: 0,
      createdAt: this.clock.now(),
      secret: made?.secret ?? null,
    };
    await this.store.store.commit([this.store.insertWallet(wallet)]);
    return wallet;
  }

  async refuseTooMany(owner: string, { maxWallets }: EscrowSettings): Promise<void> {
    if ((await this.store.countWallets(owner)) < maxWallets) return;
    throw new AppError('limitExceeded', `You already have ${maxWallets} wallets.`, {
      hint: 'Use one of them. The setting `escrow.maxWallets` sets this limit.',
    });
  }

  /** Deletes expired unclaimed wallets before refusing a new one. */
  async refuseTooManyUnclaimed({ maxClaimMs, maxUnclaimed }: EscrowSettings): Promise<void> {
    if ((await this.store.countUnclaimed()) < maxUnclaimed) return;
    await this.store.store.commit([this.store.forgetUnclaimed(this.clock.now() - maxClaimMs)]);
    if ((await this.store.countUnclaimed()) < maxUnclaimed) return;
    throw new AppError(
      'limitExceeded',
      `${maxUnclaimed} wallets are already waiting for an owner.`,
      {
        hint: 'Try again later. The setting `escrow.maxUnclaimed` sets this limit.',
      },
    );
  }

  /** The wallet that a caller acts for: the one its key is bound to, the one it names, or its only one. */
  async actingFor(caller: Caller, named?: string): Promise<Wallet> {
    const bound = boundWallet(caller);
    if (bound !== undefined) {
      const wallet = await this.store.wallet(bound);
      if (named !== undefined && named !== wallet.id && named.toLowerCase() !== wallet.address) {
        throw new AppError('forbidden', `This key is bound to wallet ${wallet.id}.`, {
          hint: 'Omit the field wallet, or use the key of the other wallet.',
        });
      }
      return wallet;
    }
    if (named !== undefined) return this.requireOwned(caller, named);
    const wallets = await this.store.walletsOf(caller.owner, 2);
    if (wallets.length === 1) return wallets[0]!;
    throw new AppError(
      'walletRequired',
      wallets.length === 0 ? 'You have no wallet yet.' : 'You have several wallets.',
      {
        hint:
          wallets.length === 0
            ? 'Create one with create_wallet.'
            : 'Set the field wallet (get_wallet lists them).',
      },
    );
  }

  /** Like actingFor, but returns only the id: for a bound key this needs no query. */
  async actingId(caller: Caller, named?: string): Promise<string> {
    const bound = boundWallet(caller);
    if (bound !== undefined && (named === undefined || named === bound)) return bound;
    return (await this.actingFor(caller, named)).id;
  }

  /** The wallet that reads, if it is unambiguous. */
  async readerWallet(caller: Caller, named?: string): Promise<Wallet | undefined> {
    if (named !== undefined || caller.subject?.startsWith('wallet:')) {
      return this.actingFor(caller, named);
    }
    const wallets = await this.store.walletsOf(caller.owner, 2);
    return wallets.length === 1 ? wallets[0] : undefined;
  }

  /** Another owner's wallet looks as if it did not exist. */
  async requireOwned(caller: Caller, named: string): Promise<Wallet> {
    const wallet = await this.store.findWallet(named);
    const bound = boundWallet(caller);
    const mine =
      wallet && (bound ? bound === wallet.id : caller.admin || wallet.owner === caller.owner);
    if (!wallet || !mine) {
      throw new AppError('walletNotFound', `You have no wallet ${named}.`, {
        hint: 'Call get_wallet without a wallet to list yours.',
      });
    }
    return wallet;
  }

  async list(caller: Caller): Promise<Wallet[]> {
    if (caller.subject?.startsWith('wallet:')) {
      return [await this.store.wallet(caller.subject.slice(7))];
    }
    return this.store.walletsOf(caller.owner, maxWalletsShown);
  }

  /** Creates a key that acts only for this wallet. `replace` revokes its older keys. */
  async newKey(access: Access, wallet: Wallet, caller: Caller, replace = false): Promise<string> {
    const subject = `wallet:${wallet.id}`;
    const before = replace ? await access.list({ subject }) : [];
    const made = await access.create(walletKeyRequest(wallet, caller), caller);
    for (const { id, revokedAt } of before) if (revokedAt === null) await access.revoke(id);
    return made.key;
  }

  async update(
    id: string,
    change: { name?: string; status?: Wallet['status']; owner?: string; policy?: Partial<Policy> },
  ): Promise<Wallet> {
    for (let tries = 0; tries < maxConflicts; tries++) {
      const before = await this.store.wallet(id);
      const { policy, ...fields } = change;
      const after: Wallet = { ...before, ...fields, policy: { ...before.policy, ...policy } };
      const { applied } = await this.store.store.commit([this.store.updateWallet(before, after)]);
      if (applied) return { ...after, version: before.version + 1 };
    }
    throw new AppError('unavailable', 'The wallet kept changing while this was being applied.', {
      hint: 'Try again.',
    });
  }

  /** Mints test credit for the operator. The caller's transferId takes effect once per wallet. */
  async mint(walletId: string, amount: number, transferId: string): Promise<Wallet> {
    const wallet = await this.store.wallet(walletId);
    const id = `mint/${wallet.id}/${transferId}`;
    // Earlier versions shared transfer ids among all wallets. A retry of such a mint must still count once.
    const [old] = await this.store.transfer(`mint:${transferId}`);
    for (let tries = 0; tries < maxConflicts; tries++) {
      const [own] = await this.store.transfer(id);
      const before = own ?? (old?.credit === wallet.id ? old : undefined);
      if (before) {
        if (before.amount === amount) return this.store.wallet(wallet.id);
        throw new AppError(
          'idempotencyConflict',
          `Mint ${transferId} already credited this wallet with another amount.`,
          {
            hint: 'Use a new id for new credit.',
          },
        );
      }
      const source = (await this.store.account(worldAccount))!;
      if (source.balance - amount < -maxSupplyMicro) {
        throw new AppError(
          'supplyExceeded',
          `The total supply is limited to ${formatUnits(maxSupplyMicro)}.`,
        );
      }
      const steps = transferSteps({
        id,
        source,
        lines: [{ credit: wallet.id, amount, kind: 'mint' }],
        at: this.clock.now(),
        floor: -maxSupplyMicro,
      });
      if ((await this.store.store.commit(steps)).applied) return this.store.wallet(wallet.id);
    }
    throw new AppError('unavailable', 'Too many concurrent mints.', { hint: 'Try again.' });
  }
}

const boundWallet = (caller: Caller): string | undefined =>
  caller.subject?.startsWith('wallet:') ? caller.subject.slice(7) : undefined;

/** The new key gets no more than the caller's own scopes and expiry. */
const walletKeyRequest = (wallet: Wallet, caller: Caller): NewKey => ({
  owner: wallet.owner,
  // Admins list the keys of all owners, so the key is not named after the text that the owner chose.
  name: wallet.id,
  scopes: heldScopes(caller, ['read', 'run']),
  expiresAt: caller.expiresAt,
  kinds: ['escrow'],
  subject: `wallet:${wallet.id}`,
});

const claimKeyInvalid = (): AppError =>
  new AppError('claimKeyInvalid', 'This claim key is unknown, already used or expired.', {
    hint: 'A claim key works once: open a new wallet. The owner of a claimed wallet gets a new key with update_wallet (rotateKey).',
  });

/** An unclaimed wallet belongs to its claim key; only the hash of the key is stored. */
const claimOwner = (claimKey: string): string => `claim:${hash('sha256', claimKey)}`;
