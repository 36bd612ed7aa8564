import type { FixedConfig } from '#config';
import type { MasterTransport } from '#minion-protocol';
import type { ModuleDeps } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import { openConfiguredAutoAccept } from './auto-accept.ts';
import { KeyGenerator } from './key-generator.ts';
import {
  createKeyLifecycle,
  type LostKeysOptions,
  Revocation,
  revokeLostKeys,
} from './key-lifecycle.ts';
import { openConfiguredKeys } from './key-store.ts';
import { createKeysApi, type OwnKey } from './keys-api.ts';
import { LastRequests } from './last-requests.ts';
import {
  type MasterKeyPair,
  type MasterKeySigner,
  openMasterKeys,
  readMasterSignature,
} from './master-keys.ts';
import { PublishKey } from './publish-key.ts';
import { RetiredIds } from './retired-ids.ts';
import { RsaPool } from './rsa-pool.ts';
import type { Seal } from './seal.ts';
import { SessionKeys } from './session-keys.ts';
import type { SharedKeySource } from './shared-key-source.ts';
import { TokenCheck } from './token-check.ts';
import { VersionCheck, VersionPins } from './version-check.ts';

/** Function with which a module deletes its data about an id. */
type Forget = (id: string) => Promise<unknown>;

export interface AuthDeps extends ModuleDeps {
  readonly seal: Seal;
  readonly events: Events;
  readonly transports: readonly MasterTransport[];
  /** Keys of the cluster. `undefined` if the master does not belong to a cluster. */
  readonly sharedKeys?: SharedKeySource | undefined;
}

export async function createAuth(deps: AuthDeps) {
  const { config, context, seal, events, transports, sharedKeys } = deps;
  const { fixed } = config;
  const { store, cluster, closers, now } = context;
  const { bus } = events;
  const log = context.log.child({ component: 'keys' });
  const rsa = closers.add(new RsaPool(), (it) => it.close());
  const generator = closers.add(new KeyGenerator(config.fixed.limits.keyBits), (it) => it.close());
  const replaced = (await sharedKeys?.writeOwnKeys(fixed, store)) ?? [];
  for (const one of replaced) {
    log.warn(
      one,
      'replaced the master key in the PKI directory, because it differed from the key of the cluster',
    );
  }
  const masterKeys = await openOwnKeys(fixed, 'master', fixed.keyPass);
  const masterKeySigner = await openMasterKeySigner(fixed, masterKeys.publicPem);
  const shared = sharedKeys?.minionKeys(store);
  const keys = closers.add(await openConfiguredKeys(config, now, shared), (it) => it.close());
  const mirror = await sharedKeys?.mirror(fixed, keys, log);
  if (mirror !== undefined) closers.add(mirror, (it) => it.close());
  const autoAccept = closers.add(await openConfiguredAutoAccept(config, now), (it) => it.close());
  const publishKey = await PublishKey.open({
    store,
    seal,
    sign: (keyString) =>
      rsa.run({ kind: 'sign-key-string', masterKey: masterKeys.privateKey, keyString }, 'master'),
    serialBlock: fixed.publishSerialBlock,
    now,
    cluster,
  });
  const sessions = await SessionKeys.open(
    { store, seal, lifetimeMs: fixed.publishSession * 1000, now, cluster },
    (id) => keys.isAccepted(id),
  );
  const pins = await VersionPins.open(store, fixed.minimumAuthVersion, cluster);
  const lastRequests = new LastRequests();
  const retiredIds = await RetiredIds.open(store, cluster);
  const revocation = closers.add(
    new Revocation({ config, context, sessions, pins, lastRequests, transports, publishKey, bus }),
    (it) => it.close(),
  );
  closers.add(startRotation(deps, publishKey, revocation), (it) => it.stop());
  const onRetire: Forget[] = [];
  const onKeyDeleted: Forget[] = [];
  if (!fixed.preserveMinionCache) {
    keys.onChange(({ id, to, isElsewhere }) => {
      if (isElsewhere || to !== null || keys.get(id) !== undefined) return;
      Promise.all(onKeyDeleted.map((forget) => forget(id))).catch((error: unknown) => {
        log.error(
          { minion: id, err: error },
          'deleted the key of a minion, but cannot delete the stored data of this minion',
        );
      });
    });
  }
  const ownKeys = ownKeysOf(fixed, masterKeys, masterKeySigner);
  return {
    /** Encrypts and decrypts the secrets in the store. */
    seal,
    rsa,
    masterKeys,
    /** Signs the master's public key, if `master_sign_pubkey` is set. */
    masterKeySigner,
    keys,
    /** Decides which keys are accepted or rejected without an operator. */
    autoAccept,
    publishKey,
    sessions,
    pins,
    versions: new VersionCheck({
      pins,
      isAccepted: (id) => keys.isAccepted(id),
      now,
      log: context.log.child({ component: 'requests' }),
    }),
    tokens: new TokenCheck((pem, token, owner) =>
      rsa.run({ kind: 'check-token', pem, token }, owner),
    ),
    lastRequests,
    revocation,
    /** Retired ids. A new machine with such an id cannot access the jobs of the retired machine. */
    retiredIds,
    lifecycle: createKeyLifecycle({
      config,
      context,
      auth: { keys, pins, lastRequests, retiredIds, revocation },
      forget: (id) => Promise.all(onRetire.map((forget) => forget(id))),
    }),
    api: createKeysApi({
      keys,
      hashType: fixed.hashType,
      protocolOf: (id) => pins.of(id),
      unpin: (id) => pins.forget([id]),
      ownKeys: async () => ownKeys,
      generator,
    }),
    /** Generator of key pairs. */
    generator,
    /** Public keys of the master. */
    ownKeys,
    /**
     * Registers a function that deletes data of an id. When an id is retired, the master calls the
     * function and waits until its promise resolves.
     */
    onRetire: (forget: Forget) => void onRetire.push(forget),
    /**
     * Registers a function that deletes data of an id. The master calls the function after the last
     * key of the id has been deleted. If `preserve_minion_cache` is set, it never calls the
     * function.
     */
    onKeyDeleted: (forget: Forget) => void onKeyDeleted.push(forget),
    /**
     * Revokes keys that were deleted or replaced while the master was not running. Later, also
     * revokes each key when it is deleted or replaced.
     * @param onKeyLost - called with the id of each lost key. Revokes the rights that other modules
     * have granted to this key
     */
    revokeLostKeys: (onKeyLost: LostKeysOptions['onKeyLost']) =>
      revokeLostKeys({ context, events, auth: { keys, revocation }, onKeyLost, log }),
  };
}

/** Starts a timer that replaces the publish key when it is older than `publish_session`. */
function startRotation(
  { config, context }: AuthDeps,
  publishKey: PublishKey,
  revocation: Revocation,
): { stop: () => void } {
  const { loopInterval, publishSession } = config.fixed;
  const lifetimeMs = publishSession * 1000;
  const round = (): void => {
    if (context.duties?.isHeld === false) return;
    if (lifetimeMs === 0 || context.now() - publishKey.current.madeAt < lifetimeMs) return;
    revocation.rotate().catch((error: unknown) => {
      context.log.error(
        { err: error },
        'cannot replace the publish key, which encrypts jobs for all minions; retrying',
      );
    });
  };
  const timer = setInterval(round, loopInterval * 1000);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}

async function openMasterKeySigner(
  config: FixedConfig,
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
  config: FixedConfig,
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

function ownKeysOf(
  config: FixedConfig,
  masterKeys: MasterKeyPair,
  signer: MasterKeySigner | undefined,
): OwnKey[] {
  const own = [{ name: 'master.pub', pem: masterKeys.publicPem }];
  if (signer?.kind !== 'keys') return own;
  return [...own, { name: `${config.masterSignKeyName}.pub`, pem: signer.keys.publicPem }];
}

/** Keys of the master and of its minions, with sessions and the state of sign-ins. */
export type Auth = Awaited<ReturnType<typeof createAuth>>;
