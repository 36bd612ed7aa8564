/** Takes execution plans for minions, and runs the commands that their entry points stand for. */

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
import { Budget, KeyedMutex } from '#runtime';
import {
  type ExecutionPlan,
  ExecutionPlanError,
  errorCodes,
  parseExecutionPlan,
  readExecutionPlan,
} from './execution-plan.ts';
import {
  bodyOfOutcome,
  type ExecutionResult,
  executionError,
  executionResult,
} from './execution-result.ts';
import type { MuranoCatalog, MuranoDefinition } from './murano-catalog.ts';
import { type MuranoOptions, readMuranoOptions } from './murano-options.ts';
import { lastStamp, storeStamp } from './plan-stamps.ts';

/** An execution plan on its way to a minion. */
interface ExecutionPlanRequest {
  /** JSON, exactly as it was signed. */
  readonly text: string;
  /** Of the id of the guest and the text. */
  readonly signature: Buffer | undefined;
  /** Its id where it names none. */
  readonly messageId: string | undefined;
  readonly caller: NonNullable<CommandRequest['caller']>;
  /** Names the caller. */
  readonly owner: string;
  /** Of the caller. */
  readonly project: string;
}

export interface MuranoDeps {
  readonly section: unknown;
  readonly catalog: MuranoCatalog;
  readonly commands: Pick<CommandsService['runner'], 'run'>;
}

export interface MuranoService {
  /**
   * The result, whatever became of it.
   * @throws BridgeError ERR_COMMAND_PARAMETERS where it has no id; ERR_COMMAND_BUSY
   */
  execute(guest: string, request: ExecutionPlanRequest): Promise<ExecutionResult>;
}

/** What the engine is told; the rest is for whoever called over HTTP. */
const refusals: ReadonlySet<BridgeErrorCode> = new Set([
  'ERR_COMMAND_DENIED',
  'ERR_COMMAND_KEY',
  'ERR_COMMAND_PARAMETERS',
  'ERR_COMMAND_TARGET',
]);

/** @throws BridgeOptionsError */
export function openMurano(
  host: Pick<ExtensionHost, 'closing' | 'config' | 'now' | 'shared'>,
  { section, catalog, commands }: MuranoDeps,
): MuranoService {
  const options = readMuranoOptions(section, path.dirname(host.config.confFile));
  /** One at a time for each guest, in the order of arrival. */
  const guests = new KeyedMutex();
  const waiting = new Budget(waitingPlans);
  return {
    execute: async (guest, request) => {
      const read = readExecutionPlan(request.text, request.messageId);
      if (read === undefined) {
        throw new BridgeError('ERR_COMMAND_PARAMETERS', 'the execution plan has no ID');
      }
      const { id, given } = read;
      try {
        requireSignature(guest, request, options);
        const plan = parseExecutionPlan(id, given);
        const { caller, owner } = request;
        // Not for the guest alone: whoever may run nothing there would keep others from it.
        const place = JSON.stringify([owner, guest]);
        if (!waiting.tryTake(place)) {
          const problem = 'as many execution plans as may wait for this guest do so';
          throw new BridgeError('ERR_COMMAND_BUSY', problem);
        }
        try {
          const body = await guests.run(guest, () =>
            executePlan(guest, plan, { caller, host, catalog, commands }),
          );
          return executionResult(id, body, host.now());
        } finally {
          waiting.release(place);
        }
      } catch (error) {
        return executionError(id, planErrorOf(error), host.now());
      }
    },
  };
}

/** Execution plans of one caller for one guest that wait or run, and those of all. */
const waitingPlans = { perOwner: 64, total: 10_000 };

/** @throws the error itself where it is not about the execution plan */
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
    throw new ExecutionPlanError(errorCodes.malformed, 'this project has no key to sign with');
  }
  // The id of the guest makes a signature good for no other guest.
  const signed = Buffer.from(`${guest}${text}`);
  const isValid = signature !== undefined && verify('sha256', signed, key, signature);
  if (!isValid) throw new ExecutionPlanError(errorCodes.malformed, 'the signature is not valid');
}

interface ExecutionDeps extends Pick<ExecutionPlanRequest, 'caller'> {
  readonly host: Pick<ExtensionHost, 'closing' | 'shared'>;
  readonly catalog: MuranoCatalog;
  readonly commands: Pick<CommandsService['runner'], 'run'>;
}

/** What the body of the execution plan returns. @throws ExecutionPlanError, BridgeError */
async function executePlan(
  guest: string,
  plan: ExecutionPlan,
  { host, catalog, commands, caller }: ExecutionDeps,
): Promise<unknown> {
  const { id, call } = plan;
  if (call === undefined) return null;
  const entry = catalog.find(call);
  const { command } = entry;
  const params = parametersOf(plan, entry);
  const last = await lastStamp(host, guest);
  const requireLaterStamp = async (): Promise<void> => {
    if (
      plan.stamp !== undefined &&
      last !== undefined &&
      plan.stamp <= last.stamp &&
      id !== last.id
    ) {
      const problem = 'the stamp is not above that of an execution plan before it';
      throw new ExecutionPlanError(errorCodes.malformed, problem);
    }
  };
  const request = {
    target: [guest],
    params,
    caller,
    // The same id is the same run, also after a crash.
    idempotencyKey: hash('sha256', JSON.stringify(['murano', guest, id])),
  };
  // Whoever may run nothing there learns nothing of its stamps.
  const options = { permitted: requireLaterStamp, isCarried: true };
  const run = await commands.run(command, request, options);
  // Only now: whoever may run nothing there sets no stamp.
  if (plan.stamp !== undefined) await storeStamp(host, guest, { stamp: plan.stamp, id });
  const outcome = await run.outcome;
  if (outcome.status === 'interrupted' && host.closing.aborted) {
    // The next process goes on with it, or another member of the cluster.
    throw new BridgeError('ERR_BRIDGE_NOT_OPEN', 'the master is being closed; send the plan again');
  }
  return bodyOfOutcome(call, outcome);
}

/** The parameters of the execution plan, and the argument of its call where the entry takes one. */
function parametersOf(
  { call, parameters }: ExecutionPlan,
  { argument: name }: MuranoDefinition,
): Parameters {
  const given = parameters as Parameters; // from JSON; the schema of the command looks at it
  const argument = call?.argument;
  if (argument === undefined) return given;
  const parameterValue = (parameter: string): Parameters[string] => {
    const value = Object.hasOwn(given, parameter) ? given[parameter] : undefined;
    if (value !== undefined) return value;
    throw new ExecutionPlanError(errorCodes.malformed, `Parameters has no ${parameter}`);
  };
  if ('parameter' in argument) {
    const value = parameterValue(argument.parameter);
    return name === undefined ? given : { ...given, [name]: value };
  }
  const texts = argument.parts.map((it) =>
    typeof it === 'string' ? it : textOfValue(it.parameter, parameterValue(it.parameter)),
  );
  if (name !== undefined) return { ...given, [name]: texts.join('') };
  // Parameters with blanks between them are the parameters of the command.
  const hasOwnText = argument.parts.some((it) => typeof it === 'string' && it.trim() !== '');
  const hasParameter = argument.parts.some((it) => typeof it !== 'string');
  if (hasParameter && !hasOwnText) return given;
  throw new ExecutionPlanError(errorCodes.malformed, 'the catalog takes no argument for this call');
}

/** A value as Python's `format` writes it. @throws ExecutionPlanError for a list, a map or null */
function textOfValue(parameter: string, value: Parameters[string]): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  const problem = `Parameters: ${parameter} is neither text nor a number, and cannot be part of a text`;
  throw new ExecutionPlanError(errorCodes.malformed, problem);
}
