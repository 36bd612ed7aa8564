/** Runs the call of a deployment at most once, even if the master is killed during the run. */

import { hash } from 'node:crypto';
import type { Subject } from '#acl';
import {
  BridgeError,
  type BridgeErrorCode,
  type CommandHandle,
  type CommandsService,
  ownerNameOf,
} from '#heat-bridge';
import type { ExtensionHost } from '#master';
import { FairSlots, unlimitedWaiting } from '#runtime';
import { guestLimits } from '../limits.ts';
import { type DeploymentResult, failedResult, resultOfRun } from '../run-result.ts';
import type { DeploymentRecord, DeploymentRecords } from './deployment-records.ts';
import type { DeploymentCall } from './resolved-call.ts';

export interface DeploymentRunsDeps {
  readonly host: Pick<ExtensionHost, 'closing' | 'logger' | 'now'>;
  /** Runners for commands of the catalog, and for entries below `deployments:`. */
  readonly runners: Readonly<Record<'code' | 'command', Pick<CommandsService['runner'], 'run'>>>;
  readonly records: Pick<DeploymentRecords, 'storedPartsOf'>;
  readonly maxRunning: number;
}

/**
 * Time after the start of a run for which its idempotency key is certainly still stored, in
 * milliseconds. The key is deleted a day after the deadline of the run.
 */
const keyCertainMs = 86_400_000;

/** Errors that mean that nothing was published, so that the run can be retried. */
const retryable: ReadonlySet<BridgeErrorCode> = new Set([
  'ERR_BRIDGE_NOT_OPEN',
  'ERR_COMMAND_BUSY',
  'ERR_COMMAND_TARGET',
]);

/**
 * Divisor of `max_running`. One eighth of the permitted running deployments is reserved for owners
 * without a running deployment.
 */
const reservedPart = 8;

export class DeploymentRuns {
  readonly #deps: DeploymentRunsDeps;
  readonly #running: FairSlots;

  constructor(deps: DeploymentRunsDeps) {
    this.#deps = deps;
    const total = deps.maxRunning;
    const reserved = Math.floor(total / reservedPart);
    const values = { total, reserved, waiting: unlimitedWaiting };
    this.#running = new FairSlots(guestLimits.deployments, values);
  }

  /**
   * Runs a deployment.
   * @param isResumed - whether an earlier process may have run it
   * @returns the result; `undefined` if the run must be retried, or if the master is closing
   */
  run(
    record: DeploymentRecord,
    subject: Subject,
    isResumed: boolean,
  ): Promise<DeploymentResult | undefined> {
    return this.#running.run(ownerNameOf(subject), () => this.#run(record, subject, isResumed));
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
      return failedResult(
        'unknown',
        'the stored record of the deployment has no command or destination',
      );
    }
    if (isResumed && host.now() > begunAt + keyCertainMs) {
      return failedResult(
        'unknown',
        'the master was stopped for too long to determine whether the deployment ran',
      );
    }
    if (host.closing.aborted) return undefined;
    const handle = await this.#begin(record, call, { subject, isResumed });
    if (handle === undefined || 'end' in handle) return handle;
    try {
      const outcome = await handle.outcome;
      // Do not change the record: the next process resumes the run.
      if (outcome.status === 'interrupted' && host.closing.aborted) return undefined;
      return resultOfRun(outcome, target.outputs, call);
    } catch (error) {
      if (host.closing.aborted) return undefined;
      host.logger.error(
        { err: error, deployment: record.id },
        'internal error while running a deployment; its result is reported as unknown',
      );
      return failedResult('unknown', 'internal error of the master during the run; see its log');
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
        // Store the idempotency key before the job is published, so that no entry runs twice.
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
