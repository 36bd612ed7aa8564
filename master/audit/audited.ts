/** Records calls of the interface as their rows of the method table declare. */

import {
  type AuditRequester,
  isRpcMethod,
  type RpcMethod,
  type RpcTable,
  type WithRequester,
} from '../api/index.ts';
import type { AuditBursts } from './audit-bursts.ts';
import { auditOf } from './audit-files.ts';
import type { AuditTrail } from './audit-record.ts';

/** Where calls are recorded. */
interface CallAudit extends Pick<AuditTrail, 'append'> {
  /** Counts repeated decisions. Default: each is a record. */
  readonly ruled?: Pick<AuditBursts, 'noteDecision'>;
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
