/**
 * Opens the part of the bridge that runs software deployments: parses its options, and creates its
 * objects.
 */

import { mayCallCommand, type Subject } from '#acl';
import {
  type Ask,
  type CommandsService,
  type EnrolmentModule,
  ownerNameOf,
  redactSecrets,
  type SignalsModule,
  secretsOf,
} from '#heat-bridge';
import { type AuditRequester, audited, type ExtensionHost, type OpenExtension } from '#master';
import { listInSlices } from '../registrations.ts';
import { AnswerReadings } from './answer-readings.ts';
import { CodeCatalog, type CodeDefinition } from './code-catalog.ts';
import { resolveCall } from './deployment-call.ts';
import { DeploymentMeter } from './deployment-meter.ts';
import { type DeploymentRecord, DeploymentRecords } from './deployment-records.ts';
import { DeploymentRuns } from './deployment-runs.ts';
import { parseDeploymentsOptions } from './deployments-options.ts';
import { StackLogins } from './logins.ts';
import { Pacer } from './request-pacer.ts';
import type { ServerWorkerDeps } from './server-worker.ts';
import { deliverStackResult } from './signal-result.ts';
import { readServer, type ServerSource, type SourceDeps } from './sources.ts';
import { StackFollower, StackFollowers } from './stack-followers.ts';
import { createHandleSignaller, handlesOf, registerHandles } from './stack-handles.ts';
import { findServers, minionOfServer } from './stack-servers.ts';
import {
  type OwnerLogin,
  parseStackRegistration,
  type RegisteredStack,
  type StackRegistration,
  StackRegistry,
} from './stacks.ts';
import {
  deploymentInfoOf,
  minionsOfRegistration,
  type StacksApi,
  stackMethods,
  unclaimedOf,
} from './stacks-api.ts';

export interface DeploymentsDeps {
  readonly section: unknown;
  readonly code: readonly CodeDefinition[];
  readonly commands: Pick<CommandsService, 'catalog' | 'createRunner' | 'runner'>;
  /** Enrolments of machines, if enrolment is enabled. */
  readonly enrolments: Pick<EnrolmentModule['enrolments'], 'liveOfInstance'> | undefined;
  readonly signals: Pick<
    SignalsModule,
    'ask' | 'handleFor' | 'intake' | 'isListed' | 'ofStacks' | 'unclaimedOf'
  >;
}

/**
 * Module for software deployments: the API of stacks, with RPC methods and metrics for the master.
 */
export interface DeploymentsModule
  extends Required<Pick<OpenExtension, 'close' | 'metrics' | 'rpc' | 'start'>> {
  readonly api: StacksApi;
  /**
   * Returns the same API for calls on behalf of another requester. Audit records name this requester.
   * @param subject - subject whose rules apply to the stacks that are registered through this API
   */
  as(requester: AuditRequester, subject: Subject): StacksApi;
  /**
   * Removes a retired minion from stacks. Resolves when the change is durable.
   * @param owner - owner of the stacks; default: all owners
   */
  dismiss(minion: string, owner?: string): Promise<void>;
}

/** Name of the right to register a stack, in rules of the action `command`. */
export const stackRight = 'bridge.stack.add';

/**
 * Name of the service that owns stacks registered over the local socket, if the registration names
 * no service.
 */
const defaultService = 'deployments';

/**
 * Opens the module for software deployments.
 * @throws BridgeError ERR_BRIDGE_OPTIONS, ERR_CATALOG
 */
export async function openDeployments(
  host: ExtensionHost,
  deps: DeploymentsDeps,
): Promise<DeploymentsModule> {
  const { section, code, commands, enrolments, signals } = deps;
  const options = parseDeploymentsOptions(section);
  const { shared: state, now, closing } = host;
  const log = host.logger.child({ component: 'deployments' });
  const codeCatalog = new CodeCatalog(code);
  const codeRunner = commands.createRunner(codeCatalog.commands);
  await codeRunner.share('deployments');
  const registry = await StackRegistry.open({ state, isListed: signals.isListed, now });
  const records = await DeploymentRecords.open({
    state,
    ownerOf: (stack) => recordOwnerOf(registry, stack),
    now,
  });
  const logins = new StackLogins();
  const runs = new DeploymentRuns({
    host,
    runners: { command: commands.runner, code: codeRunner },
    records,
    maxRunning: options.maxRunning,
  });
  const meter = new DeploymentMeter();
  const pacer = new Pacer(options.pollsPerSecond);
  const askUntil =
    (ended: AbortSignal): Ask =>
    (request) =>
      signals.ask(request, ended);
  const readings = new AnswerReadings();
  const inStepsUntil =
    (stack: RegisteredStack, ended: AbortSignal): SourceDeps['inSteps'] =>
    (work) =>
      readings.run(ownerNameOf(stack.subject), ended, work);
  const workerDeps = (stack: RegisteredStack, ended: AbortSignal): ServerWorkerDeps => ({
    records,
    read: async (source, known) => {
      const ask = askUntil(ended);
      const { maxBytes } = options;
      const inSteps = inStepsUntil(stack, ended);
      const result = await readServer(source, { ask, logins, maxBytes, known, inSteps, now });
      meter.countRead(result.kind);
      return redactSecrets(result, secretsOfSource(source));
    },
    minionOf: async (server, metadata) => {
      const enrolled = enrolments?.liveOfInstance(server.source.serverId) ?? [];
      const minion = minionOfServer(stack, server, metadata, enrolled);
      return minion !== undefined && mayReferTo(host, stack, minion) ? minion : undefined;
    },
    isPresent: (minion) => host.isReachable(minion),
    registerHandles: (minion, handles) =>
      registerHandles({
        stack,
        minion,
        handles,
        signals,
        stacks: registry.all,
        mayRefer: () => registry.get(stack.id) === stack && mayReferTo(host, stack, minion),
        log,
      }),
    resolve: (deployment) =>
      resolveCall(deployment, {
        commands: commands.catalog,
        code: codeCatalog,
        mayCall: (command) => mayCallCommand(stack.subject, command, host.policy()),
      }),
    run: (record, subject, isResumed) => runs.run(record, subject, isResumed),
    deliver: async (delivery) => {
      const signalHandle = createHandleSignaller(stack, signals);
      const ask = askUntil(ended);
      const outcome = await deliverStackResult(delivery, { ask, logins, signalHandle });
      meter.countSignal(outcome.kind);
      return redactSecrets(outcome, [
        ...secretsOf(delivery.signal),
        ...secretsOfLogin(delivery.login),
      ]);
    },
    turn: () => pacer.turn(ownerNameOf(stack.subject), ended),
    onEnd: (record) => {
      meter.countEnd(record.end ?? 'failed');
      fireEnd(host, stack, record);
    },
    intervalMs: options.intervalMs,
    backOff: { initialDelayMs: 1_000, maxDelayMs: options.maxDelayMs },
    closing: ended,
    now,
    random: Math.random,
    log,
  });
  const followers = new StackFollowers(registry, (stack, ended) => {
    const find = async (): ReturnType<typeof findServers> => {
      await pacer.turn(ownerNameOf(stack.subject), ended);
      const found = await findServers(stack, {
        ask: askUntil(ended),
        logins,
        inSteps: inStepsUntil(stack, ended),
      });
      return redactSecrets(found, secretsOfLogin(stack.registration.login));
    };
    const { intervalMs } = options;
    return new StackFollower(stack, { worker: workerDeps(stack, ended), find, intervalMs });
  });
  // A worker that is stopping may write a record after its stack was removed. Delete the records
  // again.
  const forget = async (id: string): Promise<void> => {
    await followers.update(id);
    await records.forgetStack(id);
  };
  registry.onChanged = (id) => {
    const isOver = registry.get(id) === undefined && state.cluster?.isHeld === true;
    const changed = isOver ? forget(id) : followers.update(id);
    changed.catch((error: unknown) => {
      log.error(
        { err: error },
        'the registration of a stack changed, but its deployments could not be updated',
      );
    });
  };
  const parts = { registry, followers, records, forget, signals };
  const local = createStacksApi(parts, ({ service: name = defaultService }) => ({
    kind: 'service',
    name,
  }));
  const api = audited(stackMethods(local), { stacks: local }, host.audit).stacks;
  return {
    api,
    as: (requester, subject) => {
      const stacks = createStacksApi(parts, () => subject);
      return audited(stackMethods(stacks), { stacks }, host.audit, requester).stacks;
    },
    rpc: stackMethods(api),
    metrics: () =>
      meter.families({
        servers: followers.status,
        // Only the cluster member that runs the deployments reports these metrics, so that nothing
        // is counted twice.
        open: followers.isActive ? records.open : [],
      }),
    dismiss: async (minion, owner) => {
      // The servers of these stacks may have registered handles after signals dismissed the minion.
      for (const stack of await registry.dismiss(minion, owner)) {
        await signals.ofStacks.withdraw(handlesOf(stack), minion);
      }
    },
    start: () => {
      codeRunner.goOn();
      if (state.cluster === undefined) followers.begin(closing);
      else state.cluster.onHeld((ended) => followers.begin(AbortSignal.any([ended, closing])));
    },
    close: async () => {
      followers.end();
      await codeRunner.close();
      await followers.done;
    },
  };
}

/**
 * Returns the name under which the limits count the deployment records of a stack: the owner of the
 * stack, or the stack's id if it has no owner.
 */
function recordOwnerOf(registry: Pick<StackRegistry, 'get'>, stack: string): string {
  return registry.get(stack)?.owner ?? stack;
}

interface StacksApiParts {
  readonly registry: StackRegistry;
  readonly followers: Pick<StackFollowers, 'statusOf'>;
  readonly records: Pick<DeploymentRecords, 'ofStack'>;
  /**
   * Stops the deployments of a removed stack. Resolves when their records have been deleted
   * durably.
   */
  readonly forget: (id: string) => Promise<void>;
  readonly signals: Pick<SignalsModule, 'ofStacks' | 'unclaimedOf'>;
}

/**
 * Creates the API of stacks.
 * @param subjectOf - returns the subject whose rules apply to a registration
 */
function createStacksApi(
  { registry, followers, records, forget, signals }: StacksApiParts,
  subjectOf: (given: StackRegistration) => Subject,
): StacksApi {
  return {
    add: async (given, { owner, replaces = false, ...checks } = {}) => {
      const registration = parseStackRegistration(given);
      const subject = subjectOf(registration);
      const stack = await registry.add(registration, { owner, subject }, replaces, checks);
      return registry.infoOf(stack);
    },
    list: ({ owner } = {}) =>
      listInSlices(
        registry.all.filter((it) => owner === undefined || it.owner === owner),
        ({ registration: { servers = [], minions = [] } }) => servers.length + minions.length,
        (it) => registry.infoOf(it),
        owner,
      ),
    show: async (name, { owner } = {}) => {
      const stack = registry.find(name, owner);
      const followed = followers.statusOf(stack.id);
      const minions = [
        ...minionsOfRegistration(stack.registration),
        ...followed.flatMap(({ minion }) => minion ?? []),
      ];
      return {
        ...registry.infoOf(stack),
        followed,
        deployments: records.ofStack(stack.id).slice(-1_000).map(deploymentInfoOf),
        unclaimed: (await signals.unclaimedOf(new Set(minions))).slice(-1_000).map(unclaimedOf),
      };
    },
    remove: async (name, { owner } = {}) => {
      const stack = await registry.remove(name, owner);
      await forget(stack.id);
      await signals.ofStacks.withdraw(handlesOf(stack));
      return registry.infoOf(stack);
    },
  };
}

/**
 * Whether the owner of a stack may address a minion. Minions in the registration were authorised
 * when the stack was registered. Minions from enrolments are authorised here.
 */
function mayReferTo(
  host: Pick<ExtensionHost, 'decide'>,
  { owner, subject, registration }: RegisteredStack,
  minion: string,
): boolean {
  // Stacks without an owner were registered by an operator.
  if (owner === undefined || minionsOfRegistration(registration).includes(minion)) return true;
  const call = { fun: stackRight, args: [], kwargs: new Map<string, string>() };
  const resource = { call, minions: [minion] };
  return host.decide({ subject, action: 'command', resource }).effect === 'allow';
}

function secretsOfLogin(login: OwnerLogin | undefined): readonly string[] {
  if (login === undefined) return [];
  return ['password' in login ? login.password : login.application_credential_secret];
}

function secretsOfSource({ collect, login }: ServerSource): readonly string[] {
  const url = collect?.request?.metadata_url;
  return [
    ...secretsOfLogin(login),
    ...[collect?.heat?.password, collect?.zaqar?.password, collect?.cfn?.secret_access_key].filter(
      (it) => it !== undefined,
    ),
    ...(url === undefined ? [] : secretsOf({ transport: 'TEMP_URL_SIGNAL', url })),
  ];
}

function fireEnd(
  host: ExtensionHost,
  { registration }: RegisteredStack,
  { id, server, minion, name, action, end = 'failed' }: DeploymentRecord,
): void {
  const stack = registration.name;
  const what = { id, stack, server, minion, name, action: action ?? null, end };
  host.fire(`deployment/${end}`, what);
}
