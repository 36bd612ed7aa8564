/** Opens what most modules share: the store, the audit log, secrets, minions' keys. */

import type { Logger } from 'pino';
import type { Closers } from '../runtime/index.ts';
import {
  type BackupReceipt,
  type EmbeddedStore,
  inspectStore,
  openEmbeddedStore,
  type RestoreReceipt,
  restoreStore,
  type Store,
  StoreError,
  type StoreInspection,
} from '../store/index.ts';
import { type Audit, openAudit } from './audit/index.ts';
import {
  type Auth,
  type KeyStore,
  type MasterKeyPair,
  type MasterKeySigner,
  openAutoAccept,
  openConfiguredKeys,
  openMasterKeys,
  openSeal,
  PublishKey,
  preparePrivateDirectories,
  type Revocation,
  RsaPool,
  readMasterSignature,
  type Seal,
  SessionKeys,
  secretsPrefix,
  VersionPins,
} from './auth/index.ts';
import { type MasterConfig, storeDirectory } from './config/index.ts';
import { KnownFacts, KnownResources, takeOverFacts } from './jobs/index.ts';
import type { MasterParts, StartedParts } from './master.ts';
import { Meter, meteredStore } from './metrics/index.ts';
import { openRunsPrefix } from './reactor/index.ts';
import { DecisionRecorder, type Logins } from './users/index.ts';

// The embedded store, and warnings about its disk.

/** Backups of the store, and whether its disk is full. */
interface StoreKeeper {
  readonly isFull: () => boolean;
  /** @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL */
  readonly backup: (target: string) => Promise<BackupReceipt>;
  /** Calls the listener when the disk is found full, and when there is room again. */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
}

/** For a store that somebody else opened, who keeps its backups too. */
const foreignStore: StoreKeeper = {
  isFull: () => false,
  backup: async () => {
    throw new StoreError('ERR_STORE_BACKUP', 'this master was given its store by its program');
  },
  onChange: () => {},
};

interface OwnStoreDeps {
  readonly now: () => number;
  readonly log: Logger;
  readonly onReplaced: StartedParts['onReplaced'];
}

/**
 * Opens the store in `state_dir`.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_VERSION, and what else opening may meet
 */
async function openOwnStore(
  { stateDir }: Pick<MasterConfig, 'stateDir'>,
  { now, log, onReplaced }: OwnStoreDeps,
): Promise<{ readonly store: EmbeddedStore; readonly keeper: StoreKeeper }> {
  const directory = storeDirectory(stateDir);
  let tell: (isFull: boolean) => void = () => {};
  const store = await openEmbeddedStore({
    directory,
    now,
    onFull: (isFull) => {
      if (isFull) log.error({ directory }, 'disk of the store is full: nothing new is kept');
      else log.info({ directory }, 'disk of the store has room again');
      tell(isFull);
    },
    onUpgrade: ({ from, to, old }) =>
      log.warn(
        { from, to, old: old.file, bytes: old.bytes },
        'store upgraded; the old one is kept',
      ),
    onFenced: (error) => {
      log.fatal({ directory, err: error }, 'another process has taken the store: master ends');
      onReplaced(error);
    },
  });
  const keeper: StoreKeeper = {
    isFull: () => store.isFull,
    backup: (target) => store.backup(target),
    onChange: (listener) => {
      tell = listener;
    },
  };
  return { store, keeper };
}

/** Opened before everything else. */
export interface CoreServices extends Auth {
  readonly store: Store;
  readonly storeKeeper: StoreKeeper;
  readonly meter: Meter;
  /** Who did what. */
  readonly audit: Audit;
  /** What was decided about minions. */
  readonly decisions: DecisionRecorder;
  /** Grains and pillar of minions. */
  readonly facts: KnownFacts;
  /** What minions manage besides themselves. */
  readonly resources: KnownResources;
}

export async function openCoreServices(
  parts: StartedParts,
  closers: Closers,
  now: () => number,
): Promise<CoreServices> {
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
  const masterKeySigner = await openMasterKeySigner(config, masterKeys.publicPem);
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
    masterKeySigner,
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
  { config, store, logger, onReplaced }: StartedParts,
  closers: Closers,
  now: () => number,
): Promise<Pick<CoreServices, 'store' | 'storeKeeper'>> {
  if (store !== undefined) return { store, storeKeeper: foreignStore };
  const log = logger.child({ component: 'store' });
  const own = await openOwnStore(config, { now, log, onReplaced });
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

async function openMasterKeySigner(
  config: MasterConfig,
  masterPublicPem: string,
): Promise<MasterKeySigner | undefined> {
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

// Operations on the store of a master that is not running.

/**
 * Makes a backup of the store of a master that is not running.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_BACKUP, ERR_STORE_FULL
 */
export async function backupOfflineStore(
  { stateDir }: MasterConfig,
  target: string,
): Promise<BackupReceipt> {
  const store = await openEmbeddedStore({ directory: storeDirectory(stateDir) });
  try {
    return await store.backup(target);
  } finally {
    await store.close();
  }
}

/**
 * Puts a backup in the place of the store of a master that is not running. The publish key and
 * the session keys in it are dropped: minions hold higher serials of that key by now and would
 * take no publication, and what was revoked since must not serve again. So every minion signs in
 * once more. Runs of reactions that waited then are dropped as well: they have been done since.
 * @throws StoreError ERR_STORE_LOCKED while a master runs; ERR_STORE_CORRUPT, ERR_STORE_VERSION,
 * ERR_STORE_BACKUP, ERR_STORE_FULL: the store is as it was
 */
export async function restoreMasterStore(
  { stateDir }: MasterConfig,
  file: string,
): Promise<RestoreReceipt> {
  return restoreStore({
    file,
    directory: storeDirectory(stateDir),
    adapt: async (store) => {
      await store.write([
        { op: 'delete-prefix', prefix: secretsPrefix },
        { op: 'delete-prefix', prefix: openRunsPrefix },
      ]);
    },
  });
}

/**
 * Reads the whole store, also while the master runs; changes nothing.
 * @throws StoreError ERR_STORE_CORRUPT, ERR_STORE_UNAVAILABLE
 */
export function inspectMasterStore({ stateDir }: MasterConfig): Promise<StoreInspection> {
  return inspectStore(storeDirectory(stateDir));
}

/** What is looked at every `loop_interval`. */
export interface MaintenanceOptions {
  readonly config: MasterConfig;
  readonly foundations: CoreServices;
  readonly revocation: Revocation;
  readonly logins: Pick<Logins, 'sweep'>;
  readonly now: () => number;
  readonly log: Logger;
}

/** Replaces the publish key when it is older than `publish_session`; drops expired tokens. */
export function startMaintenance(options: MaintenanceOptions): { stop: () => void } {
  const { config, foundations, revocation, logins, now, log } = options;
  const lifetimeMs = config.publishSession * 1000;
  const round = (): void => {
    logins.sweep().catch((error: unknown) => {
      log.error({ err: error }, 'expired tokens were not dropped');
    });
    if (lifetimeMs === 0 || now() - foundations.publishKey.current.madeAt < lifetimeMs) return;
    revocation.rotate().catch((error: unknown) => {
      log.error({ err: error }, 'publish key rotation failed');
    });
  };
  const timer = setInterval(round, config.loopInterval * 1000);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
