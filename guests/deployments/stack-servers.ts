/** Determines the servers of a registered stack, and their minions. */

import Type from 'typebox';
import {
  type Ask,
  type Enrolment,
  encodePath,
  getRequest,
  isLive,
  textOfAnswer,
} from '#heat-bridge';
import { compileSchema, readJsonInSteps } from '#runtime';
import { answerOptions } from './answer-readings.ts';
import type { StackLogins } from './logins.ts';
import type { ServerMetadata } from './metadata.ts';
import type { FollowedServer } from './server-worker.ts';
import type { SourceDeps } from './sources.ts';
import type { RegisteredStack } from './stacks.ts';

/**
 * Returns the servers in the registration. The servers among the resources of the stack are found
 * separately.
 */
export function namedServers({ id, subject, registration }: RegisteredStack): FollowedServer[] {
  const { servers = [], login, stack } = registration;
  return servers
    .filter(({ collect }) => collect !== undefined || stack === undefined)
    .map(({ server, collect }) => ({
      server,
      subject,
      source: { stack: id, serverId: server, collect, login },
    }));
}

const isResources = compileSchema(
  Type.Object({
    resources: Type.Array(
      Type.Object({
        resource_name: Type.String(),
        physical_resource_id: Type.Union([Type.String(), Type.Null()]),
        resource_type: Type.String(),
        resource_status: Type.Optional(Type.String()),
        links: Type.Array(Type.Object({ rel: Type.String(), href: Type.String() })),
      }),
    ),
  }),
);

const serverTypes: ReadonlySet<string> = new Set(['OS::Heat::DeployedServer', 'OS::Nova::Server']);
const maxFound = 10_000;
const maxListBytes = 8_388_608;

export interface FindServersDeps {
  readonly ask: Ask;
  readonly logins: StackLogins;
  readonly inSteps: SourceDeps['inSteps'];
}

/**
 * Lists the servers among the resources of the stack and of its nested stacks. If this fails,
 * returns the reason.
 */
export async function findServers(
  { id, subject, registration }: RegisteredStack,
  { ask, logins, inSteps }: FindServersDeps,
): Promise<
  | { readonly ok: true; readonly servers: readonly FollowedServer[] }
  | { readonly ok: false; readonly reason: string }
> {
  const { stack, login, servers = [] } = registration;
  if (stack === undefined || login === undefined) return { ok: true, servers: [] };
  const result = await logins.ask(ask, id, login, ({ heat }) =>
    getRequest(heat && `${heat}/stacks/${encodePath(stack)}/resources?nested_depth=5`, {
      maxBytes: maxListBytes,
    }),
  );
  const answer = textOfAnswer(result, { maxBytes: maxListBytes });
  if (!answer.ok) return answer;
  const read = await inSteps(readJsonInSteps(answer.text ?? 'null', answerOptions(maxListBytes)));
  if (!read.ok) return read;
  const { value } = read;
  if (!isResources.Check(value))
    return { ok: false, reason: 'the response of Heat contains no list of resources' };
  const collected = new Set(
    servers.filter(({ collect }) => collect !== undefined).map(({ server }) => server),
  );
  const found = value.resources.flatMap((resource): readonly FollowedServer[] => {
    const { resource_name: name, physical_resource_id: serverId, resource_type: type } = resource;
    if (serverId === null || serverId === '' || !serverTypes.has(type)) return [];
    if (collected.has(name) || collected.has(serverId)) return [];
    const resourcePath = resourcePathOf(resource.links);
    if (resourcePath === undefined) return [];
    const source = { stack: id, serverId, resourcePath, collect: undefined, login };
    return [{ server: serverId, subject, source }];
  });
  const ids = new Set(found.map(({ server }) => server));
  // Use sets, because both lists can have 10,000 entries.
  const names = new Set(found.map(({ source }) => nameOfResource(source.resourcePath)));
  const others = servers
    .filter(({ server, collect }) => collect === undefined && !ids.has(server))
    .filter(({ server }) => !names.has(server))
    .map(({ server }) => ({
      server,
      subject,
      source: { stack: id, serverId: server, collect: undefined, login },
    }));
  return { ok: true, servers: [...found, ...others].slice(0, maxFound) };
}

/**
 * Returns the path of a resource, `<stack>/<id>/resources/<name>`, from the link with the relation
 * `self`. Returns `undefined` if there is no such link.
 */
function resourcePathOf(
  links: readonly { readonly rel: string; readonly href: string }[],
): string | undefined {
  const self = links.find(({ rel }) => rel === 'self')?.href ?? '';
  const [, path] = /\/stacks\/([^/]+\/[^/]+\/resources\/[^/?#]+)$/.exec(self) ?? [];
  try {
    return path === undefined ? undefined : path.split('/').map(decodeURIComponent).join('/');
  } catch {
    return undefined;
  }
}

/** Returns the name at the end of a resource path. */
function nameOfResource(resourcePath: string | undefined): string | undefined {
  return resourcePath?.split('/').at(-1);
}

/**
 * Returns the minion of a server. Uses the first of these sources that names a minion:
 * - the registration of the stack
 * - the enrolment of the server's instance, if it belongs to the project of the registration
 * - the template, if the registration lists the minion that the template names
 */
export function minionOfServer(
  { registration }: RegisteredStack,
  { server, source }: FollowedServer,
  metadata: ServerMetadata,
  enrolments: Iterable<Enrolment>,
): string | undefined {
  const { servers = [], minions = [], project } = registration;
  const name = nameOfResource(source.resourcePath);
  const named = servers.find((it) => it.server === server || it.server === name)?.minion;
  if (named !== undefined) return named;
  const enrolled = [...enrolments].find(
    (it) => it.instance === source.serverId && isLive(it) && it.project === project,
  );
  if (enrolled !== undefined) return enrolled.id;
  const { minion } = metadata;
  return minion !== undefined && minions.includes(minion) ? minion : undefined;
}
