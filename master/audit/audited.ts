import type { Decision } from '../../acl/index.ts';
import {
  type AuditActor,
  type AuditRequester,
  type InProcessApi,
  type KeyChange,
  type KeySelection,
  type KeysApi,
  type ReloadReport,
  type StoredHead,
  version,
} from '../api/index.ts';
import type { KeyStore, KeyChange as KeyTransition, Seal } from '../auth/index.ts';
import type { LiveConfig, MasterConfig } from '../config/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type BusApi, type Events, tags } from '../events/index.ts';
import {
  AuditBursts,
  type AuditBurstsOptions,
  AuditLog,
  type AuditTrail,
  auditDirectory,
  auditOf,
  named,
  noAudit,
} from './audit-log.ts';

/** The interface to events, with who fires which of them in the audit log. */
export function auditedEvents(events: BusApi, ruled: RuledDecisions): BusApi {
  return {
    ...events,
    fire: (tag, data, by) => {
      const { who, rule } = auditOf(by, '');
      ruled.note({ who, action: 'fire', what: tag }, { effect: 'allow', rule });
      return events.fire(tag, data);
    },
  };
}

/** An operation, on what, and who asked for it. */
interface AuditedKeyChange {
  readonly action: string;
  readonly what: string;
  readonly by: AuditRequester | undefined;
}

/** The interface to keys, each operation of which is audited with what came of it. */
export function auditedKeys(keys: KeysApi, audit: AuditTrail): InProcessApi['keys'] {
  const tell = (
    { action, what, by }: AuditedKeyChange,
    ids: readonly string[],
    outcome: 'done' | 'failed',
  ): void => {
    audit.append({ ...auditOf(by, ''), action, what, ...named(ids), outcome });
  };
  const audited =
    (action: string, change: (selection: KeySelection) => Promise<readonly KeyChange[]>) =>
    async (selection: KeySelection, by?: AuditRequester): Promise<readonly KeyChange[]> => {
      const asked = { action, what: selection.match, by };
      try {
        const changes = await change(selection);
        const ids = changes.map(({ id }) => id);
        tell(asked, ids, 'done');
        return changes;
      } catch (error) {
        tell(asked, [], 'failed');
        throw error;
      }
    };
  return {
    ...keys,
    accept: audited('key.accept', keys.accept),
    reject: audited('key.reject', keys.reject),
    delete: audited('key.delete', keys.delete),
    create: async (request, by) => {
      const entry = { ...auditOf(by, ''), action: 'key.create', what: request.id };
      try {
        const created = await keys.create(request);
        audit.append({ ...entry, on: created === null ? [] : [request.id], outcome: 'done' });
        return created;
      } catch (error) {
        audit.append({ ...entry, outcome: 'failed' });
        throw error;
      }
    },
    unpin: async (id, by) => {
      await keys.unpin(id);
      tell({ action: 'key.unpin', what: id, by }, [id], 'done');
    },
  };
}

/** What happened to a key, whoever did it: by itself, in the PKI directory, or by an operation. */
function tellKeyChange(audit: AuditTrail, { id, from, to }: KeyTransition): void {
  const wasOrIsAccepted = from === 'accepted' || to === 'accepted';
  if (!wasOrIsAccepted) return;
  audit.append({
    who: { kind: 'master', name: '' },
    action: to === 'accepted' ? 'key.accepted' : 'key.revoked',
    on: [id],
    outcome: 'done',
    detail: `from ${from ?? 'nowhere'} to ${to ?? 'nowhere'}`,
  });
}

/** A token, as far as the log names it. */
interface AuditedToken {
  readonly id: string;
  readonly user: string;
  readonly eauth: string;
}

/** Tells of log-ins, and of tokens that end before their time. */
export class LoginAudit {
  readonly #audit: AuditTrail;
  readonly #ruled: RuledDecisions;

  constructor(audit: AuditTrail, ruled: RuledDecisions) {
    this.#audit = audit;
    this.#ruled = ruled;
  }

  loggedIn(token: AuditedToken, source: string): void {
    const { id, user, eauth } = token;
    const who = { kind: 'user', name: user, eauth } as const;
    this.#audit.append({
      who,
      action: 'login',
      what: source,
      outcome: 'done',
      detail: `token ${id}`,
    });
  }

  /** Without a name: people type their passwords there. @param eauth - if it is one that serves */
  failed(eauth: string | undefined, source: string): void {
    const who: AuditActor = { kind: 'user', name: '', ...(eauth === undefined ? {} : { eauth }) };
    this.#ruled.note(
      { who, action: 'login', what: source },
      { effect: 'deny', rule: 'credentials' },
    );
  }

  /** Ended by somebody who is not their user. @param by - default: the local interface */
  revoked(tokens: readonly AuditedToken[], by?: AuditRequester): void {
    for (const { id, user, eauth } of tokens) {
      const detail = `of ${user} by ${eauth}`;
      const entry = { action: 'token.revoke', what: id, outcome: 'done', detail } as const;
      this.#audit.append({ ...auditOf(by, ''), ...entry });
    }
  }

  /** Logged out, revoked, or of a user who may not log in any more. */
  ended(tokens: readonly AuditedToken[]): void {
    for (const { id, user, eauth } of tokens) {
      const who = { kind: 'user', name: user, eauth } as const;
      this.#audit.append({ who, action: 'token.end', what: id, outcome: 'done' });
    }
  }
}

/** Taking over another configuration, audited with what changed, or that it was refused. */
export function auditedReload(
  audit: AuditTrail,
  reload: (config: MasterConfig) => Promise<ReloadReport>,
): (config: MasterConfig, by?: AuditRequester) => Promise<ReloadReport> {
  return async (config, by) => {
    const entry = { ...auditOf(by, ''), action: 'policy.reload' };
    try {
      const report = await reload(config);
      const what = report.applied.join(', ');
      audit.append({ ...entry, what, outcome: 'done' });
      return report;
    } catch (error) {
      const detail = 'refused; what was in force stays';
      audit.append({ ...entry, outcome: 'failed', detail });
      throw error;
    }
  };
}

// Decisions: what rules permitted to minions, and what was refused to minions and users.

/** What somebody asked for. */
export interface RuledQuestion {
  readonly who: AuditActor;
  readonly action: string;
  /** Tag, function, path or operation. */
  readonly what: string;
}

/** Counts decisions by who asked, what, and rule. */
export class RuledDecisions {
  readonly #bursts: AuditBursts;

  constructor(options: AuditBurstsOptions) {
    this.#bursts = new AuditBursts(options);
  }

  note(
    { who, action, what }: RuledQuestion,
    { effect, rule }: Pick<Decision, 'effect' | 'rule'>,
  ): void {
    const outcome = effect === 'allow' ? 'permitted' : 'denied';
    const asker = `${who.kind} ${who.eauth ?? ''} ${who.name}`;
    this.#bursts.note({ who, action, what, rule, outcome }, asker);
  }

  /** Tells how often each was repeated, and begins anew. */
  flush(): void {
    this.#bursts.flush();
  }
}

// Opening.

/** The log as the rest of a master sees it. */
export interface Audit extends AuditTrail {
  /** What rules permitted and denied. */
  readonly ruled: RuledDecisions;
  readonly isFull: () => boolean;
  /** Calls the listener when records find no room, and when they do again. */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
  /** Resolves when all that was appended is on disk; `null`: nothing is audited. */
  readonly flush: () => Promise<StoredHead | null>;
}

export interface AuditDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly seal: Seal;
}

/** @throws the system's error when the log cannot be opened */
export async function createAudit({ config, context, seal }: AuditDeps): Promise<Audit> {
  const { store, now, closers } = context;
  const { audit: options, stateDir } = config.fixed;
  if (!options.enabled) {
    const nothing = async (): Promise<null> => null;
    const ruled = new RuledDecisions({ audit: noAudit, now });
    return { ...noAudit, ruled, isFull: () => false, onChange: () => {}, flush: nothing };
  }
  const { fileBytes, keepFiles } = options;
  let tell: (isFull: boolean) => void = () => {};
  const audit = closers.add(
    await AuditLog.open({
      directory: auditDirectory({ stateDir }),
      store,
      fileBytes,
      keepFiles,
      digestKey: seal.derive('audit'),
      onFull: (isFull) => tell(isFull),
      now,
      log: context.log.child({ component: 'audit' }),
    }),
    (it) => it.close(),
  );
  return {
    append: (entry) => audit.append(entry),
    digest: (value) => audit.digest(value),
    ruled: new RuledDecisions({ audit, now }),
    isFull: () => audit.isFull,
    onChange: (listener) => {
      tell = listener;
    },
    flush: () => audit.flush(),
  };
}

export interface MasterAuditDeps extends Omit<AuditDeps, 'seal'> {
  readonly audit: Audit;
  readonly auth: { readonly keys: KeyStore };
  readonly events: Events;
}

/** Audits the master's own life and its keys, and tells when the log has no room. */
export function auditMaster({ config, context, audit, auth, events }: MasterAuditDeps): void {
  audit.onChange((isFull) => events.bus.fire(isFull ? tags.auditFull : tags.auditRoom, {}));
  auth.keys.onChange((change) => tellKeyChange(audit, change));
  const who = { kind: 'master', name: config.fixed.id } as const;
  const detail = `saltbridge ${version}, process ${process.pid}`;
  audit.append({ who, action: 'master.start', outcome: 'done', detail });
  context.closers.add(audit, (it) => {
    it.ruled.flush();
    it.append({ who, action: 'master.stop', outcome: 'done' });
  });
}
