/**
 * Accepts execution plans for guests, and runs the commands that the catalog assigns to their entry
 * points.
 */

import { hash, verify } from 'node:crypto';
import path from 'node:path';
import {
  BridgeError,
  type BridgeErrorCode,
  type CommandRequest,
  type CommandsService,
  type Parameters,
} from '#heat-bridge';
import type { ExtensionHost } from '#master';
import { Budget, KeyedMutex, releaseAll, StepScheduler, tryTakeAll } from '#runtime';
import { Float } from '#template/python/values.ts';
import { guestLimits } from '../limits.ts';
import {
  type ExecutionPlan,
  ExecutionPlanError,
  errorCodes,
  parseExecutionPlan,
  readExecutionPlan,
  type ScriptCall,
} from './execution-plan.ts';
import {
  bodyOfOutcome,
  type ExecutionResult,
  executionError,
  executionResult,
} from './execution-result.ts';
import type { MuranoCatalog, MuranoDefinition } from './murano-catalog.ts';
import { type MuranoOptions, readMuranoOptions } from './murano-options.ts';
import { isTooFarAhead, lastStamp, storeStamp } from './plan-stamps.ts';

/** Request to run an execution plan on a guest. */
interface ExecutionPlanRequest {
  /** JSON text, exactly as it was signed. */
  readonly text: string;
  /** Signature that covers the guest's id and the text. */
  readonly signature: Buffer | undefined;
  /** Id to use if the text of the execution plan contains none. */
  readonly messageId: string | undefined;
  readonly caller: NonNullable<CommandRequest['caller']>;
  /** Whether the caller may call a command. */
  readonly mayCall: (command: string) => boolean;
  /** Name of the caller. */
  readonly owner: string;
  /** Project of the caller. */
  readonly project: string;
}

export interface MuranoDeps {
  readonly section: unknown;
  readonly catalog: MuranoCatalog;
  readonly commands: Pick<CommandsService['runner'], 'check' | 'run'>;
}

export interface MuranoService {
  /**
   * Runs an execution plan. Returns its result, including failures.
   * @throws BridgeError ERR_COMMAND_PARAMETERS if it has no id; ERR_COMMAND_BUSY
   */
  execute(guest: string, request: ExecutionPlanRequest): Promise<ExecutionResult>;
}

/**
 * Error codes that become a result for Murano's engine. All other errors become an HTTP error for
 * the caller.
 */
const refusals: ReadonlySet<BridgeErrorCode> = new Set([
  'ERR_COMMAND_DENIED',
  'ERR_COMMAND_KEY',
  'ERR_COMMAND_PARAMETERS',
  'ERR_COMMAND_TARGET',
]);

/**
 * Opens the service that runs execution plans.
 * @throws BridgeOptionsError
 */
export function openMurano(
  host: Pick<ExtensionHost, 'closing' | 'config' | 'now' | 'shared'>,
  { section, catalog, commands }: MuranoDeps,
): MuranoService {
  const options = readMuranoOptions(section, path.dirname(host.config.confFile));
  /** Runs the execution plans of each guest one after the other, in the order of arrival. */
  const guests = new KeyedMutex();
  const places = new PlanPlaces();
  const scheduler = new StepScheduler();
  const execute: MuranoService['execute'] = async (guest, request) => {
    const read = await scheduler.run(readExecutionPlan(request.text, request.messageId));
    if (read === undefined) {
      throw new BridgeError('ERR_COMMAND_PARAMETERS', 'the execution plan has no ID');
    }
    const { id, given } = read;
    try {
      requireSignature(guest, request, options);
      const { caller, mayCall, project } = request;
      const call = callOf(guest, parseExecutionPlan(id, given), { caller, mayCall, catalog });
      // Check the rights before the plan waits, so that callers without rights neither wait nor
      // learn whether another plan runs.
      if (call === undefined) return executionResult(id, null, host.now());
      await commands.check(call.command, call.request);
      const body = await guests.run(guest, () =>
        executeCall(call, { guest, project, host, commands }),
      );
      return executionResult(id, body, host.now());
    } catch (error) {
      return executionError(id, planErrorOf(error), host.now());
    }
  };
  return {
    execute: async (guest, request) => {
      const leave = places.enter(guest, request);
      try {
        return await execute(guest, request);
      } finally {
        leave();
      }
    },
  };
}

/**
 * Limits the execution plans that wait for a result. There are three limits: the number of plans of
 * one caller, the bytes of these plans, and the number of plans that one caller has sent to one
 * guest.
 */
class PlanPlaces {
  readonly #ofGuests = new Budget(guestLimits.waitingPlans);
  readonly #ofCallers = new Budget(guestLimits.plansOfCaller);
  readonly #bytes = new Budget(guestLimits.planBytes);

  /**
   * Counts an execution plan towards the limits.
   *
   * @returns a function that removes the plan from the counts
   *
   * @throws BridgeError ERR_COMMAND_BUSY if a limit is reached
   */
  enter(guest: string, { owner, text }: ExecutionPlanRequest): () => void {
    // Include the caller in the key, so that callers without permissions cannot block others.
    const place = JSON.stringify([owner, guest]);
    const parts = [
      { budget: this.#ofGuests, owner: place, amount: 1, which: 'for this guest' },
      { budget: this.#ofCallers, owner, amount: 1, which: '' },
      { budget: this.#bytes, owner, amount: Buffer.byteLength(text), which: '(by total size)' },
    ];
    const full = tryTakeAll(parts);
    if (full !== undefined) throw busy(full.which);
    return () => releaseAll(parts);
  }
}

function busy(which: string): BridgeError {
  const plans = `too many execution plans of this caller are pending ${which}`.trimEnd();
  return new BridgeError('ERR_COMMAND_BUSY', `${plans}; retry later`);
}

/**
 * Converts an error in the execution plan to an `ExecutionPlanError`.
 * @throws any other error unchanged
 */
function planErrorOf(error: unknown): ExecutionPlanError {
  if (error instanceof ExecutionPlanError) return error;
  if (error instanceof BridgeError && refusals.has(error.code)) {
    return new ExecutionPlanError(errorCodes.malformed, error.message);
  }
  throw error;
}

function requireSignature(
  guest: string,
  { text, signature, project }: ExecutionPlanRequest,
  { keys, acceptsUnsigned }: MuranoOptions,
): void {
  const key = keys.get(project);
  if (key === undefined) {
    if (acceptsUnsigned) return;
    throw new ExecutionPlanError(
      errorCodes.malformed,
      'unsigned execution plan rejected; add the public key of the project to the option `murano: keys`',
    );
  }
  // The signed text contains the id of the guest, so the signature is valid for this guest only.
  const signed = Buffer.from(`${guest}${text}`);
  const isValid = signature !== undefined && verify('sha256', signed, key, signature);
  if (!isValid)
    throw new ExecutionPlanError(
      errorCodes.malformed,
      'the signature of the execution plan is missing or invalid',
    );
}

/** Command that an execution plan runs. */
interface PlannedCall extends Pick<ExecutionPlan, 'id' | 'stamp'> {
  readonly command: string;
  readonly request: CommandRequest;
  /** Options of the script call. The content of its file is left out, because it may be large. */
  readonly script: Omit<ScriptCall, 'source'>;
}

/**
 * Returns the command that an execution plan runs, or `undefined` if the body runs nothing.
 * @throws ExecutionPlanError
 */
function callOf(
  guest: string,
  plan: ExecutionPlan,
  {
    caller,
    mayCall,
    catalog,
  }: Pick<ExecutionPlanRequest, 'caller' | 'mayCall'> & Pick<MuranoDeps, 'catalog'>,
): PlannedCall | undefined {
  const { id, stamp, call } = plan;
  if (call === undefined) return undefined;
  const entry = catalog.find(call, mayCall);
  const { source: _, ...script } = call;
  const request = { target: [guest], params: parametersOf(plan, entry), caller };
  return { id, stamp, command: entry.command, request, script };
}

interface ExecutionDeps extends Pick<ExecutionPlanRequest, 'project'> {
  readonly guest: string;
  readonly host: Pick<ExtensionHost, 'closing' | 'now' | 'shared'>;
  readonly commands: MuranoDeps['commands'];
}

/**
 * Runs the command of an execution plan. Returns the value that the body of the plan returns.
 * @throws ExecutionPlanError, BridgeError
 */
async function executeCall(
  { id, stamp, command, request: planned, script }: PlannedCall,
  { guest, host, commands, project }: ExecutionDeps,
): Promise<unknown> {
  const whose = { guest, project };
  const last = await lastStamp(host, whose);
  const requireLaterStamp = async (): Promise<void> => {
    if (stamp !== undefined && isTooFarAhead(stamp, host.now())) {
      const problem =
        'the Stamp of the execution plan is more than a day ahead of the clock of the master';
      throw new ExecutionPlanError(errorCodes.malformed, problem);
    }
    if (stamp !== undefined && last !== undefined && stamp <= last.stamp && id !== last.id) {
      const problem =
        'the Stamp of the execution plan must be greater than that of the previous one';
      throw new ExecutionPlanError(errorCodes.malformed, problem);
    }
  };
  const request = {
    ...planned,
    // The idempotency key contains the id of the plan. A plan that is sent twice therefore runs
    // once, even after a crash.
    idempotencyKey: hash('sha256', JSON.stringify(['murano', guest, id])),
  };
  // Check the stamp after the permissions, so that callers without permissions cannot learn it.
  const options = { permitted: requireLaterStamp, isCarried: true };
  const run = await commands.run(command, request, options);
  // Store the stamp only after the permissions were checked, so that callers without permissions
  // cannot change it.
  if (stamp !== undefined) await storeStamp(host, whose, { stamp, id });
  const outcome = await run.outcome;
  if (outcome.status === 'interrupted' && host.closing.aborted) {
    // The next process, or another cluster member, continues the run.
    throw new BridgeError(
      'ERR_BRIDGE_NOT_OPEN',
      'the master is closing; send the execution plan again',
    );
  }
  return bodyOfOutcome(script, outcome);
}

/**
 * Returns the parameters for the command of an execution plan. The catalog entry can name a command
 * parameter that receives the argument of the script call.
 * @throws ExecutionPlanError if a parameter has no value, or if the command cannot receive the
 * argument
 */
function parametersOf(
  { call, parameters }: ExecutionPlan,
  { argument: name }: MuranoDefinition,
): Parameters {
  const given = parameters as Parameters; // from JSON; validated by the schema of the command
  const argument = call?.argument;
  if (argument === undefined) return given;
  const parameterValue = (parameter: string): Parameters[string] => {
    const value = Object.hasOwn(given, parameter) ? given[parameter] : undefined;
    if (value !== undefined) return value;
    throw new ExecutionPlanError(
      errorCodes.malformed,
      `the \`Body\` of the execution plan uses args.${parameter}, but \`Parameters\` has no value with this name`,
    );
  };
  if ('parameter' in argument) {
    const value = parameterValue(argument.parameter);
    return name === undefined ? given : { ...given, [name]: value };
  }
  const texts = argument.parts.map((it) =>
    typeof it === 'string' ? it : textOfValue(it.parameter, parameterValue(it.parameter)),
  );
  if (name !== undefined) return { ...given, [name]: joinedArgument(texts) };
  // If the text only separates parameters by blanks, the parameters already contain all values.
  const hasOwnText = argument.parts.some((it) => typeof it === 'string' && it.trim() !== '');
  const hasParameter = argument.parts.some((it) => typeof it !== 'string');
  if (hasParameter && !hasOwnText) return given;
  throw new ExecutionPlanError(
    errorCodes.malformed,
    'the `Body` of the execution plan passes an argument, but the catalog entry of this command has no field `argument`; add this field',
  );
}

/**
 * Joins the pieces of an argument. Adds up their lengths first, because the text of a format can
 * name a long parameter very often.
 * @throws ExecutionPlanError
 */
function joinedArgument(texts: readonly string[]): string {
  const { total: maxLength = Infinity } = guestLimits.planArgument;
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= maxLength) return texts.join('');
  throw new ExecutionPlanError(
    errorCodes.malformed,
    `the argument in the \`Body\` of the execution plan would have ${length} characters, more than ${maxLength}; use each parameter less often`,
  );
}

/**
 * Formats a value as Python's `format` does.
 * @throws ExecutionPlanError for a list, a map or null
 */
function textOfValue(parameter: string, value: Parameters[string]): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  const isText = typeof value === 'string' || typeof value === 'number' || value instanceof Float;
  if (isText) return String(value);
  const problem = `Parameters: ${parameter} must be text, a number or a boolean to be part of text`;
  throw new ExecutionPlanError(errorCodes.malformed, problem);
}
