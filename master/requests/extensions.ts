/**
 * What a program adds to a master from outside this room: something that keeps state of its own,
 * takes signals, gives pillar, and has methods at the local socket. `saltbridge/bridge` is one.
 */

import type { Logger } from 'pino';
import {
  type Decision,
  decide,
  type Policy,
  type ProjectSubject,
  type Question,
  questionText,
  type Subject,
} from '#acl';
import type { FixedConfig, LiveConfig, MasterConfig, ReloadableConfig } from '#config';
import type { WireMap } from '#minion-protocol';
import type { FileServerBackend } from '#salt/files/index.ts';
import type { ExtPillar } from '#salt/pillar/index.ts';
import type { TriggerEvent } from '#salt/reactor/index.ts';
import {
  type Change,
  changeBelow,
  type Entry,
  type Key,
  type ListOptions,
  type Operation,
  operationBelow,
  type Store,
  storeBelow,
} from '#store';
import {
  type AuditActor,
  type InProcessApi,
  type JobUpdate,
  type MasterApi,
  MasterError,
  type MetricFamily,
  type MinionRunners,
  type NamedCommands,
  type RpcTable,
  type TargetRequest,
} from '../api/index.ts';
import type { Audit, AuditTrail, RuledDecisions } from '../audit/index.ts';
import {
  type Auth,
  createSeal,
  type KeyAcceptanceHook,
  type KeyLifecycle,
  type Seal,
} from '../auth/index.ts';
import { type CallGate, type Cluster, followRows, type MasterContext } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import type { Jobs } from '../jobs/index.ts';
import type { TargetBounds, Users } from '../users/index.ts';

/** Given to `createMaster`; opened with it, and closed with it. */
export interface MasterExtension {
  /** Letters, digits and `-`; none that another extension of the master has. */
  readonly name: string;
  /** Before any minion is served. What it throws ends the master's start. */
  open(host: ExtensionHost): Promise<OpenExtension>;
}

/** Somebody who logged in. */
export interface TokenHolder {
  readonly subject: Subject;
  /** What they may, now: see {@link ExtensionHost.decide}. */
  readonly policy: Policy;
  /** Fires when the token ends. */
  readonly ended: AbortSignal;
  /** Nothing that they began is under way any more. */
  stop(): void;
}

/** What a master does for an extension. */
export interface ExtensionHost {
  /** What a reload does not change. */
  readonly config: FixedConfig;
  /** What a reload replaces, as it is now. */
  reloadable(): ReloadableConfig;
  /**
   * Asks before each reload, with `saltbridge: bridge:` as it will be: of it, a reload changes
   * `handles: endpoints:`.
   * @param prepare - returns what puts it in force; what it throws refuses the whole reload
   */
  beforeReload(prepare: (bridge: MasterConfig['bridge']) => () => void): void;
  /** @throws MasterError ERR_MASTER_STOPPED before {@link OpenExtension.start} */
  readonly master: () => MasterApi;
  /** Through which calls of a member of a cluster begin. @internal */
  readonly calls?: CallGate | undefined;
  /** The policy in force, now. */
  policy(): Policy;
  /**
   * The one decision. What is denied is told to the audit log.
   * @param policy - default: the one in force
   */
  decide(question: Question, policy?: Policy): Decision;
  /** The ids that a target means for certain. @throws MasterError ERR_BAD_TGT */
  minionsOf(target: TargetRequest, bounds?: TargetBounds): Promise<readonly string[]>;
  /** Whether a compound target of an operator's means all of these for certain. */
  isWithin(minions: readonly string[], target: string): boolean;
  /**
   * Follows a job that was published before, also by the master before this one, to its end: what
   * came back meanwhile comes first. @throws MasterError ERR_JOB_UNKNOWN
   */
  resumeJob(jid: string, signal?: AbortSignal): AsyncIterable<JobUpdate>;
  /** Whom a token belongs to. @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE */
  holdToken(token: string): Promise<TokenHolder>;
  /** A job id that no job has. */
  freshJid(): Promise<string>;
  /** Whether a minion listens to publications; in a cluster at any member. */
  isConnected(minion: string): Promise<boolean>;
  /** Of this master alone, also where it is a member of a cluster. */
  readonly state: StateArea;
  /** Of all members of the cluster; the same rows as {@link state} where there is none. */
  readonly shared: SharedArea;
  readonly admission: KeyLifecycle;
  readonly audit: AuditTrail;
  /** Fires an event `saltbridge/<extension>/<tag>`. */
  fire(tag: string, data: WireMap): void;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Fires when the master is being closed, before {@link OpenExtension.close}. */
  readonly closing: AbortSignal;
}

/** Takes signals that the policy let in. */
export interface SignalIntake {
  isWanted(tag: string, sender: string): boolean;
  /**
   * Whether one that its sender's rate does not allow waits, as requests do; it is dropped
   * otherwise, as events are.
   */
  isDelayed?(tag: string, sender: string): boolean;
  /**
   * Durable when it resolves; only then the minion is answered. The same request again adds
   * nothing.
   * @returns the id under which it goes on, if it has one: the same for the same request
   * @throws StoreError when it cannot be kept: the minion sends again
   */
  take(occurrence: TriggerEvent): Promise<string | undefined>;
}

/** An extension of a master that was opened. */
export interface OpenExtension {
  readonly intake?: SignalIntake;
  /** What it knows of keys that minions show. */
  readonly advice?: KeyAcceptanceHook;
  /**
   * Called when the accepted key of an id was deleted, rejected or replaced, whoever did it, also
   * while no master ran. After a crash it may be called again.
   */
  onKeyLost?(id: string): Promise<void>;
  /** Put over each minion's pillar, last. */
  readonly pillar?: ExtPillar;
  /** Files that minions are served where no other backend has one of the name. */
  readonly files?: FileServerBackend;
  /** Of one extension at most. */
  readonly commands?: NamedCommands;
  /** Runners that minions may call where a rule of the action `runner` permits it. */
  readonly minionRunners?: MinionRunners;
  /** Methods at the local socket; called there as `<extension>.<name>`. */
  readonly rpc?: RpcTable;
  /** What it measures, as `metrics` and `status` of the master tell it; made when somebody asks. */
  metrics?(): readonly MetricFamily[];
  /**
   * The ports are bound, and the master's interface is there; the local socket is not, yet. What it
   * throws ends the master's start.
   */
  start?(): void | Promise<void>;
  /** Waits for what is under way. */
  close(): Promise<void>;
}

// State areas: the part of the store that belongs to one extension.

/** A row. */
type StateEntry = Entry;

/** One step of {@link StateArea.write}: as the store's, without streams. */
export type StateOperation = Exclude<Operation, { readonly op: 'append' }>;

/** Rows of one extension, by keys that begin anew for each; and a seal of its own. */
export interface StateArea {
  /** @throws StoreError */
  get(key: Key): Promise<StateEntry | undefined>;
  /** Rows whose key begins with `prefix`, in key order. @throws StoreError */
  list(prefix: Key, options?: ListOptions): AsyncIterable<StateEntry>;
  /**
   * All of it or nothing; on disk when it resolves. With `ifRevision: 0` a row is written only
   * where there is none.
   * @returns the revision that the rows have now
   * @throws StoreError ERR_REVISION when an `ifRevision` does not hold; nothing was written
   */
  write(operations: readonly StateOperation[]): Promise<number>;
  /** For what no copy of the store may give away; opens in this extension of this master alone. */
  seal(plain: Uint8Array): Uint8Array;
  /** @throws MasterError ERR_SEAL when it was sealed elsewhere, or altered */
  unseal(sealed: Uint8Array): Uint8Array;
}

/** A change of a row of an area. */
export type StateChange = Change;

/** Rows of one extension that all members of a cluster read and write. */
export interface SharedArea extends StateArea {
  /**
   * Calls the listener with each row below a prefix, and resolves. From then on it is called with
   * each change that any member of the cluster makes, in the order of the log: before the write that
   * made it resolves here. Without a cluster no change is told.
   */
  follow(prefix: Key, listener: (change: StateChange) => void): Promise<void>;
  /** `undefined`: no other master has these rows. */
  readonly cluster: AreaCluster | undefined;
}

/** What the members of a cluster agree upon by their store. */
interface AreaCluster {
  /** Name of this member. */
  readonly member: string;
  /** Whether a member has not been heard of for so long that others go on with what it did. */
  isGone(member: string): boolean;
  /** Whether this member does now what one of them does for all. */
  readonly isHeld: boolean;
  /** Calls the listener when it begins to, and at once where it does; the signal fires when it must stop. */
  onHeld(listener: (ended: AbortSignal) => void): void;
  /**
   * Writes if this member does it still, when the write is applied.
   * @throws StoreError ERR_REVISION otherwise, and as {@link StateArea.write}
   */
  writeHeld(operations: readonly StateOperation[]): Promise<void>;
  /** Tells the other members what this one is configured with, by a digest of it. */
  announce(kind: string, version: string): void;
  /** Tells the other members something beside the log; it may be lost. */
  send(kind: string, value: WireMap): void;
  /** Calls the listener, of which each kind has one, with what other members tell by {@link send}. */
  onMessage(kind: string, listener: (value: WireMap) => void): void;
  /** A key of 32 bytes that all members make alike, and that is in no copy of the store. */
  derive(purpose: string): Uint8Array;
}

const areaOf = (name: string): Key => ['state', name];
const streamsOf = (name: string): string => `state/${name}/`;

/** The part that belongs to the extension of this name. */
function openStateArea(store: Store, seal: Seal, name: string): StateArea {
  const { get, list, write } = storeBelow(store, areaOf(name), streamsOf(name));
  const own = createSeal(seal.derive(`state ${name}`));
  return {
    get,
    list,
    write,
    seal: (plain) => own.seal(plain),
    unseal: (sealed) => own.open(sealed),
  };
}

/** What a shared area needs of the master. */
interface SharedStore extends Pick<MasterContext, 'duties' | 'log' | 'store'> {
  readonly cluster:
    | Pick<Cluster, 'announce' | 'derive' | 'follow' | 'isGone' | 'member' | 'onMessage' | 'send'>
    | undefined;
}

/** The part of the store that belongs to the extension of this name at all members of a cluster. */
export function openSharedArea(
  { store, cluster, duties, log }: SharedStore,
  seal: Seal,
  name: string,
): SharedArea {
  const area = openStateArea(store, seal, name);
  const prefix = areaOf(name);
  return {
    ...area,
    follow: (below, listener) =>
      followRows({ store, cluster, log }, [...prefix, ...below], (change) =>
        listener(changeBelow(change, prefix)),
      ),
    cluster: cluster &&
      duties && {
        member: cluster.member,
        isGone: (member) => cluster.isGone(member),
        announce: (kind, version) => cluster.announce(kind, version),
        get isHeld() {
          return duties.isHeld;
        },
        onHeld: (listener) => duties.onHeld(listener),
        writeHeld: (operations) =>
          duties.write(operations.map((it) => operationBelow(it, prefix, streamsOf(name)))),
        send: (kind, value) => cluster.send(`${name} ${kind}`, value),
        onMessage: (kind, listener) => cluster.onMessage(`${name} ${kind}`, listener),
        derive: (purpose) => cluster.derive(`state ${name} ${purpose}`),
      },
  };
}

// Opening.

export interface ExtensionDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly audit: Audit;
  readonly events: Events;
  readonly users: Users;
}

/** What is there once the ports are bound. */
interface RunningMaster {
  readonly api: InProcessApi;
  readonly jobs: Jobs;
}

/** The extensions of a master. */
export interface Extensions {
  readonly intakes: readonly SignalIntake[];
  readonly pillars: readonly ExtPillar[];
  readonly files: readonly FileServerBackend[];
  readonly minionRunners: MinionRunners;
  readonly advice: KeyAcceptanceHook;
  /** See {@link OpenExtension.onKeyLost}; of all of them. */
  readonly onKeyLost: (id: string) => Promise<void>;
  readonly commands: NamedCommands | undefined;
  /** A room of methods at the local socket for each. */
  readonly methods: RpcTable;
  /** What each measures, by the names of extensions. */
  metrics(): ReadonlyMap<string, readonly MetricFamily[]>;
  start(running: RunningMaster): Promise<void>;
}

interface Named {
  readonly name: string;
  readonly open: OpenExtension;
}

/** Opens one after the other; the closers close them. */
export async function openExtensions(
  extensions: readonly MasterExtension[],
  deps: ExtensionDeps,
): Promise<Extensions> {
  let running: RunningMaster | undefined;
  const there = (): RunningMaster => {
    if (running !== undefined) return running;
    throw new MasterError('ERR_MASTER_STOPPED', 'this master is starting');
  };
  const opened: Named[] = [];
  for (const extension of extensions) {
    const { name } = extension;
    checkName(name, opened);
    const open = await extension.open(createHost(name, deps, there));
    opened.push({ name, open: deps.context.closers.add(open, (it) => it.close()) });
  }
  return {
    intakes: opened.flatMap(({ open }) => open.intake ?? []),
    pillars: opened.flatMap(({ open }) => open.pillar ?? []),
    files: opened.flatMap(({ open }) => open.files ?? []),
    minionRunners: Object.assign({}, ...opened.map(({ open }) => open.minionRunners)),
    advice: joinAdvice(opened.flatMap(({ open }) => open.advice ?? [])),
    onKeyLost: async (id) => {
      await Promise.all(opened.map(({ open }) => open.onKeyLost?.(id)));
    },
    commands: opened.flatMap(({ open }) => open.commands ?? [])[0],
    methods: Object.fromEntries(opened.map(({ name, open }) => [name, open.rpc ?? {}])),
    metrics: () => new Map(opened.map(({ name, open }) => [name, open.metrics?.() ?? []])),
    start: async (master) => {
      running = master;
      for (const { open } of opened) await open.start?.();
    },
  };
}

/** Whoever knows something says it; the strongest word counts. */
function joinAdvice(advices: readonly KeyAcceptanceHook[]): KeyAcceptanceHook {
  return async (offered) => {
    const said = await Promise.all(advices.map((advice) => advice(offered)));
    return (['deny', 'accept', 'wait'] as const).find((word) => said.includes(word));
  };
}

function checkName(name: string, others: readonly Named[]): void {
  if (!/^[a-z][a-z0-9-]{0,63}$/.test(name)) throw new TypeError('no name of an extension');
  if (others.some((it) => it.name === name)) throw new TypeError(`two extensions ${name}`);
}

function createHost(
  name: string,
  deps: ExtensionDeps,
  running: () => RunningMaster,
): ExtensionHost {
  const { config, context, auth, audit, events, users } = deps;
  const { policy } = users;
  return {
    config: config.fixed,
    reloadable: () => config.current,
    beforeReload: (prepare) => config.beforeChange(({ bridge }) => prepare(bridge)),
    master: () => running().api,
    calls: context.cluster?.calls,
    policy: () => policy.current,
    decide: (question, by = policy.current) => {
      const decision = decide(question, by);
      if (decision.effect === 'deny') audit.ruled.note(askedOf(question), decision);
      return decision;
    },
    minionsOf: (target, bounds) => users.minionsOf(target, bounds),
    isWithin: (minions, target) => users.isWithin(minions, target),
    resumeJob: (jid, signal) => running().api.jobs.follow(jid, signal),
    holdToken: (token) => users.holdToken(token),
    freshJid: async () => running().jobs.freshJid(),
    isConnected: async (minion) => running().jobs.isConnected(minion),
    state: openStateArea(context.ownStore, auth.seal, name),
    shared: openSharedArea(context, auth.seal, name),
    admission: auth.lifecycle,
    audit,
    fire: (tag, data) => events.bus.fire(`saltbridge/${name}/${tag}`, data),
    logger: context.log.child({ component: name }),
    now: context.now,
    closing: context.closing,
  };
}

function askedOf(question: Question): Parameters<RuledDecisions['note']>[0] {
  const { subject, action } = question;
  const what = question.action === 'return' ? question.resource.jid : questionText(question);
  return { who: actorOf(subject), action, what };
}

/** A subject as the audit log names it. */
export function actorOf(subject: Subject): AuditActor {
  switch (subject.kind) {
    case 'minion':
      return { kind: 'minion', name: subject.id };
    case 'user': {
      const { name, eauth } = subject;
      return { kind: 'user', name, ...(eauth === undefined ? {} : { eauth }) };
    }
    case 'project':
      return { kind: subject.kind, name: projectName(subject) };
    case 'service':
    case 'token':
      return { kind: subject.kind, name: subject.name };
  }
}

/** Ids first: they are Keystone's, and names are anybody's. */
function projectName({ project, user }: ProjectSubject): string {
  const names = [project, user].map(({ name, domain }) => `${domain.name}/${name}`);
  return `${project.id}/${user.id} (${names.join(', ')})`;
}
