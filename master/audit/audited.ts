/**
 * Writes audit records for calls of the master's interface. The table of RPC methods defines the
 * record of each method.
 */

import {
  type AuditRequester,
  isRpcMethod,
  type RpcMethod,
  type RpcTable,
  type WithRequester,
} from '../api/index.ts';
import type { AuditBursts } from './audit-bursts.ts';
import { auditOf } from './audit-files.ts';
import type { AuditEntry, AuditTrail } from './audit-record.ts';

/** Destination of audit records. */
interface CallAudit extends Pick<AuditTrail, 'append'> {
  /**
   * Combines repeated entries: within a minute, only the first one is recorded, and the others are
   * counted. Default: every entry becomes a record.
   */
  readonly ruled?: Pick<AuditBursts, 'noteDecision' | 'noteOfActor'>;
}

/** Facts about a call that are known before the call is made. */
interface AuditedCall {
  readonly parameters: object;
  /** Requester of the call. Default: the local interface. */
  readonly by: AuditRequester | undefined;
}

/** Makes a call, and writes the audit record that the table entry of its method defines. */
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
    else audit.ruled.noteDecision({ who, action, what }, { effect: 'allow', rule });
    return call();
  }
  try {
    const result = await call();
    const details = declared.done(parameters, result);
    audit.append({ who, action, ...details, rule, outcome: 'done' });
    return result;
  } catch (error) {
    const details = declared.failed?.(parameters);
    if (details !== undefined) {
      const entry: AuditEntry = { who, action, ...details, rule, outcome: 'failed' };
      // A caller can fail any number of times without a right, for example with unknown names.
      if (by === undefined || audit.ruled === undefined) audit.append(entry);
      else audit.ruled.noteOfActor(entry);
    }
    throw error;
  }
}

/** Type of any method of the interface. */
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
    // The table entry belongs to this method, so the types of the arguments match.
    const parameters = row.toParameters(...(args as never));
    const requester = (given[row.arity] as AuditRequester | undefined) ?? by;
    const missing = Array.from({ length: row.arity - args.length }, () => undefined);
    return auditedCall(row, { parameters, by: requester }, audit, () =>
      method(...args, ...missing, requester),
    );
  };
}

/**
 * Wraps an interface. Each method writes the audit record that its table entry defines. A method
 * stays unchanged if another module writes its record. The wrapped methods accept the requester as
 * an additional last argument.
 * @param by - requester of calls without that argument. Default: the local interface
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
  // Each wrapped method has the name of the original and accepts one more argument.
  return Object.fromEntries(members) as WithRequester<T>;
}
