/** What a master stands on: its store, its secrets, and the keys of its minions. */
import type { Logger } from 'pino';
import type { Store } from '../store/index.ts';
import { type Audit, openAudit } from './audit/open.ts';
import type { Closers } from './closers.ts';
import type { MasterConfig } from './config/options.ts';
import { DecisionRecorder } from './decisions/recorder.ts';
import { preparePrivateDirectories } from './directories.ts';
import { type AutoAccept, openAutoAccept } from './keys/auto-accept.ts';
import type { KeyStore } from './keys/key-store.ts';
import { openConfiguredKeys } from './keys/open-keys.ts';
import type { MasterParts } from './master.ts';
import { Meter } from './metrics/meter.ts';
import { meteredStore } from './metrics/metered-store.ts';
import { foreignStore, openOwnStore, type StoreKeeper } from './own-store.ts';
import { VersionPins } from './requests/version-pins.ts';
import { type MasterKeyPair, openMasterKeys } from './secrets/master-keys.ts';
import { readMasterSignature } from './secrets/master-signature.ts';
import { PublishKey } from './secrets/publish-key.ts';
import { RsaPool } from './secrets/rsa-pool.ts';
import { openSeal, type Seal } from './secrets/seal.ts';
import { SessionKeys } from './secrets/session-keys.ts';
import { KnownFacts } from './targeting/minion-facts.ts';
import { KnownResources } from './targeting/resources.ts';
import { takeOverFacts } from './targeting/salt-data-cache.ts';

/** Opened in this order. */
export interface Foundations {
  readonly store: Store;
  readonly storeKeeper: StoreKeeper;
  readonly meter: Meter;
  /** Over what the store holds of secrets. */
  readonly seal: Seal;
  /** Who did what. */
  readonly audit: Audit;
  /** What was decided about minions. */
  readonly decisions: DecisionRecorder;
  readonly rsa: RsaPool;
  readonly masterKeys: MasterKeyPair;
  /** With `master_sign_pubkey`: what vouches for the master's key. */
  readonly voucher: Voucher | undefined;
  readonly keys: KeyStore;
  /** Which keys need no operator. */
  readonly autoAccept: AutoAccept;
  readonly publishKey: PublishKey;
  readonly sessions: SessionKeys;
  readonly pins: VersionPins;
  /** Grains and pillar of minions. */
  readonly facts: KnownFacts;
  /** What minions manage besides themselves. */
  readonly resources: KnownResources;
}

/** A key pair that signs the master's key for each minion, or a signature that was made beforehand. */
export type Voucher =
  | { readonly kind: 'keys'; readonly keys: MasterKeyPair }
  | { readonly kind: 'signature'; readonly signature: string };

export async function openFoundations(
  parts: MasterParts & { readonly logger: Logger },
  closers: Closers,
  now: () => number,
): Promise<Foundations> {
  const { config } = parts;
  await preparePrivateDirectories([config.stateDir, config.pkiDir]);
  const meter = new Meter();
  const { store: bare, storeKeeper } = await openStore(parts, closers, now);
  const store = meteredStore(bare, meter);
  const seal = await openSeal(config.stateDir);
  const auditLog = parts.logger.child({ component: 'audit' });
  const audit = closers.add(await openAudit({ config, store, seal, now, log: auditLog }), (it) =>
    it.close(),
  );
  const decisions = closers.add(
    await DecisionRecorder.open({
      store,
      seal,
      keepsValues: () => config.acl.recordData,
      now,
      log: auditLog,
    }),
    (it) => it.close(),
  );
  const rsa = closers.add(new RsaPool(), (it) => it.close());
  const masterKeys = await openOwnKeys(config, 'master', config.keyPass);
  const voucher = await openVoucher(config, masterKeys.publicPem);
  const keys = closers.add(await openConfiguredKeys(config, now), (it) => it.close());
  const autoAccept = closers.add(await openAutoAccept({ ...config, now }), (it) => it.close());
  const publishKey = await PublishKey.open({
    store,
    seal,
    sign: (keyString) =>
      rsa.run({ kind: 'sign-key-string', masterKey: masterKeys.privateKey, keyString }),
    serialBlock: config.publishSerialBlock,
    now,
  });
  const sessions = await SessionKeys.open(
    { store, seal, lifetimeMs: config.publishSession * 1000, now },
    (id) => keys.isAccepted(id),
  );
  const pins = await VersionPins.open(store, config.minimumAuthVersion);
  const facts = await openFacts(parts, { store, seal, keys });
  const resources = await KnownResources.open({
    store,
    maxBytes: config.limits.grainsBytes,
    hasKey: (id) => keys.get(id) !== undefined,
  });
  return {
    store,
    storeKeeper,
    meter,
    seal,
    audit,
    decisions,
    rsa,
    masterKeys,
    voucher,
    keys,
    autoAccept,
    publishKey,
    sessions,
    pins,
    facts,
    resources,
  };
}

async function openStore(
  { config, store, logger }: MasterParts & { readonly logger: Logger },
  closers: Closers,
  now: () => number,
): Promise<Pick<Foundations, 'store' | 'storeKeeper'>> {
  if (store !== undefined) return { store, storeKeeper: foreignStore };
  const own = await openOwnStore(config, { now, log: logger.child({ component: 'store' }) });
  closers.add(own.store, (it) => it.close());
  return { store: own.store, storeKeeper: own.keeper };
}

/** Where nothing is known yet, what a salt-master knew is taken over. */
async function openFacts(
  { config, logger }: MasterParts & { readonly logger: Logger },
  { store, seal, keys }: { readonly store: Store; readonly seal: Seal; readonly keys: KeyStore },
): Promise<KnownFacts> {
  const maxBytes = config.limits.grainsBytes;
  const facts = await KnownFacts.open({
    store,
    seal,
    isOn: config.minionDataCache,
    maxBytes,
    hasKey: (id) => config.preserveMinionCache || keys.get(id) !== undefined,
  });
  if (!config.minionDataCache || facts.size > 0) return facts;
  const log = logger.child({ component: 'targeting' });
  const ids = keys.acceptedIds();
  const count = await takeOverFacts(facts, {
    cachedir: config.cachedir,
    ids,
    maxBytes: 2 * maxBytes,
    log,
  });
  if (count > 0) log.info({ minions: count }, 'minion data taken over from salt-master');
  return facts;
}

async function openVoucher(
  config: MasterConfig,
  masterPublicPem: string,
): Promise<Voucher | undefined> {
  if (!config.masterSignPubkey) return undefined;
  if (config.masterUsePubkeySignature) {
    return { kind: 'signature', signature: await readMasterSignature(config, masterPublicPem) };
  }
  const keys = await openOwnKeys(config, config.masterSignKeyName, config.signingKeyPass);
  return { kind: 'keys', keys };
}

function openOwnKeys(
  config: MasterConfig,
  name: string,
  passphrase: string | null,
): Promise<MasterKeyPair> {
  return openMasterKeys({
    pkiDir: config.pkiDir,
    name,
    bits: config.keysize,
    ...(passphrase === null ? {} : { passphrase }),
  });
}
