import type { LiveConfig } from '#config';
import {
  type AuditActor,
  type AuditRequester,
  isRpcMethod,
  type RpcMethod,
  type RpcTable,
  type StoredHead,
  version,
  type WithRequester,
} from '../api/index.ts';
import type { KeyStore, KeyChange as KeyTransition, Seal } from '../auth/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type Events, tags } from '../events/index.ts';
import { auditDirectory, auditOf } from './audit-files.ts';
import { AuditLog } from './audit-log.ts';
import { type AuditTrail, noAudit } from './audit-record.ts';
import { RuledDecisions } from './ruled-decisions.ts';
import { AuditWitness } from './witness.ts';

/** Where calls are recorded. */
interface CallAudit extends Pick<AuditTrail, 'append'> {
  /** Counts repeated decisions. Default: each is a record. */
  readonly ruled?: Pick<RuledDecisions, 'note'>;
}

/** What is known of a call before it is made. */
interface AuditedCall {
  readonly parameters: object;
  /** Default: the local interface. */
  readonly by: AuditRequester | undefined;
}

/** Makes a call, and writes the record that its row of the method table declares. */
export async function auditedCall<T>(
  { audit: declared }: Pick<RpcMethod, 'audit'>,
  { parameters, by }: AuditedCall,
  audit: CallAudit,
  call: () => Promise<T>,
): Promise<T> {
  if (declared === undefined || 'writtenBy' in declared) return call();
  const { action } = declared;
  const { who, rule } = auditOf(by, '');
  if ('permitted' in declared) {
    const what = declared.permitted(parameters);
    if (audit.ruled === undefined) audit.append({ who, action, what, rule, outcome: 'permitted' });
    else audit.ruled.note({ who, action, what }, { effect: 'allow', rule });
    return call();
  }
  try {
    const result = await call();
    const details = declared.done(parameters, result);
    audit.append({ who, action, ...details, rule, outcome: 'done' });
    return result;
  } catch (error) {
    const details = declared.failed?.(parameters);
    if (details !== undefined) audit.append({ who, action, ...details, rule, outcome: 'failed' });
    throw error;
  }
}

/** A method of the interface, whatever it takes. */
type ApiMethod = (...args: readonly unknown[]) => Promise<unknown>;

function hasRecord({ audit }: RpcMethod): boolean {
  return audit !== undefined && !('writtenBy' in audit);
}

function auditedMethod(
  row: RpcMethod,
  method: ApiMethod,
  audit: CallAudit,
  by: AuditRequester | undefined,
): ApiMethod {
  return (...given) => {
    const args = given.slice(0, row.arity);
    // The row is of this method, and so are the arguments.
    const parameters = row.toParameters(...(args as never));
    const requester = given[row.arity] as AuditRequester | undefined;
    return auditedCall(row, { parameters, by: requester ?? by }, audit, () => method(...args));
  };
}

/**
 * An interface that is called in the process, with the records that its rows declare: of each method
 * whose row does not name a module that writes them. Who asks is the argument behind the method's
 * own.
 * @param by - who asks where a call does not say it. Default: the local interface
 */
export function audited<T extends object>(
  rows: RpcTable,
  api: T,
  audit: CallAudit,
  by?: AuditRequester,
): WithRequester<T> {
  const members = Object.entries(api).map(([name, member]: [string, unknown]) => {
    const row = Object.hasOwn(rows, name) ? rows[name] : undefined;
    if (row === undefined) return [name, member];
    if (!isRpcMethod(row)) return [name, audited(row, Object(member), audit, by)];
    return [name, hasRecord(row) ? auditedMethod(row, member as ApiMethod, audit, by) : member];
  });
  // Each member is the one of this name, with one argument more.
  return Object.fromEntries(members) as WithRequester<T>;
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
  const { ownStore: store, now, closers } = context;
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
  const { cluster } = context;
  if (cluster !== undefined) {
    const witness = new AuditWitness({ audit, cluster, store: context.store, id: config.fixed.id });
    closers.add(witness, (it) => it.close());
  }
  return {
    append: audit.append.bind(audit),
    digest: audit.digest.bind(audit),
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
  auth.keys.onChange((change) => {
    // Another member's log has what it did.
    if (!change.isElsewhere) tellKeyChange(audit, change);
  });
  const who = { kind: 'master', name: config.fixed.id } as const;
  const detail = `saltbridge ${version}, process ${process.pid}`;
  audit.append({ who, action: 'master.start', outcome: 'done', detail });
  context.closers.add(audit, (it) => {
    it.ruled.flush();
    it.append({ who, action: 'master.stop', outcome: 'done' });
  });
}
