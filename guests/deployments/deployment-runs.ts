/** Runs what a deployment asks for, once: also where the master was killed meanwhile. */

import { hash } from 'node:crypto';
import type { Subject } from '#acl';
import {
  BridgeError,
  type BridgeErrorCode,
  type CommandHandle,
  type CommandsService,
} from '#heat-bridge';
import type { ExtensionHost } from '#master';
import { Semaphore } from '#runtime';
import { type DeploymentResult, failedResult, resultOfRun } from '../run-result.ts';
import type { DeploymentRecord, DeploymentRecords } from './deployment-records.ts';
import type { DeploymentCall } from './resolved-call.ts';

export interface DeploymentRunsDeps {
  readonly host: Pick<ExtensionHost, 'closing' | 'logger' | 'now'>;
  /** Commands of the catalog, and entries of its `deployments:`. */
  readonly runners: Readonly<Record<'code' | 'command', Pick<CommandsService['runner'], 'run'>>>;
  readonly records: Pick<DeploymentRecords, 'storedPartsOf'>;
  readonly maxRunning: number;
}

/** The idempotency key of a run is kept for a day after its deadline. */
const keyCertainMs = 86_400_000;

/** Nothing was published; it may be tried again. */
const retryable: ReadonlySet<BridgeErrorCode> = new Set([
  'ERR_BRIDGE_NOT_OPEN',
  'ERR_COMMAND_BUSY',
  'ERR_COMMAND_TARGET',
]);

export class DeploymentRuns {
  readonly #deps: DeploymentRunsDeps;
  readonly #running: Semaphore;

  constructor(deps: DeploymentRunsDeps) {
    this.#deps = deps;
    this.#running = new Semaphore(deps.maxRunning);
  }

  /**
   * The result; `undefined`: it is to be tried again, or the master is being closed.
   * @param isResumed - whether it may have run before
   */
  run(
    record: DeploymentRecord,
    subject: Subject,
    isResumed: boolean,
  ): Promise<DeploymentResult | undefined> {
    return this.#running.run(() => this.#run(record, subject, isResumed));
  }

  async #run(
    record: DeploymentRecord,
    subject: Subject,
    isResumed: boolean,
  ): Promise<DeploymentResult | undefined> {
    const { host, records } = this.#deps;
    const { target, begunAt } = record;
    const { call } = await records.storedPartsOf(record);
    if (call === undefined || target === undefined) {
      return failedResult('unknown', 'the record of the run is incomplete');
    }
    if (isResumed && host.now() > begunAt + keyCertainMs) {
      return failedResult('unknown', 'the master was away for too long to learn whether it ran');
    }
    if (host.closing.aborted) return undefined;
    const handle = await this.#begin(record, call, { subject, isResumed });
    if (handle === undefined || 'end' in handle) return handle;
    try {
      const outcome = await handle.outcome;
      // The next process goes on with it.
      if (outcome.status === 'interrupted' && host.closing.aborted) return undefined;
      return resultOfRun(outcome, target.outputs, call);
    } catch (error) {
      if (host.closing.aborted) return undefined;
      host.logger.error({ err: error, deployment: record.id }, 'deployment run failed');
      return failedResult('unknown', 'the master failed while it ran');
    }
  }

  async #begin(
    { stack, server, id, minion }: DeploymentRecord,
    call: DeploymentCall,
    { subject, isResumed }: { readonly subject: Subject; readonly isResumed: boolean },
  ): Promise<CommandHandle | DeploymentResult | undefined> {
    try {
      const { runners } = this.#deps;
      const runner = call.kind === 'command' ? runners.command : runners.code;
      const request = {
        target: [minion],
        params: call.params,
        caller: subject,
        // Durable before the job is published; the same entry is the same run.
        idempotencyKey: hash('sha256', JSON.stringify(['deployment', stack, server, id])),
      };
      return await runner.run(call.command, request, { isCarried: true });
    } catch (error) {
      if (this.#deps.host.closing.aborted) return undefined;
      if (!(error instanceof BridgeError)) throw error;
      if (retryable.has(error.code)) return undefined;
      return failedResult(isResumed ? 'unknown' : 'refused', error.message);
    }
  }
}
