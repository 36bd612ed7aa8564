/** Enrolments over HTTP, for services: each request is judged by the id and the project it names. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AuthorizationError, actorOf, type ExtensionHost } from '../../master/index.ts';
import type { HttpDoors } from '../http/doors.ts';
import type { EnrollApi } from './api.ts';
import type { Enrolment } from './enrolment.ts';
import type { NewEnrolment } from './request.ts';
import { bodyOf } from './routes.ts';
import { enrolRequest } from './schemas.ts';

/** What the routes ask of their master. */
type RoutesHost = Pick<ExtensionHost, 'audit' | 'decide' | 'holdToken' | 'isWithin'>;

/** What rules of the action `command` call the rights. */
type Right = 'bridge.enroll.create' | 'bridge.enroll.retire';

interface OfNumber {
  readonly Params: { readonly number: string };
}

const bodyLimit = 524_288;
const createForm = bodyOf(enrolRequest);

/**
 * `POST enrolments`, `GET enrolments/<number>` and `POST enrolments/<number>/retire`. Whoever asks
 * must be permitted `command` of `bridge.enroll.create` or `bridge.enroll.retire` with the keywords
 * `id` and `project` of the enrolment.
 */
export function addServiceRoutes(
  app: FastifyInstance,
  doors: HttpDoors,
  host: RoutesHost,
  api: EnrollApi,
): void {
  const permit = (request: FastifyRequest, right: Right, of: Named): Promise<void> =>
    permitted(host, doors.tokenOf(request) ?? '', right, of);
  app.post('/enrolments', { bodyLimit }, async (request): Promise<NewEnrolment> => {
    const wanted = createForm(request.body);
    await permit(request, 'bridge.enroll.create', wanted);
    return api.create(wanted);
  });
  app.get<OfNumber>('/enrolments/:number', async (request): Promise<Enrolment> => {
    const enrolment = await known(host, doors, request, api);
    await permit(request, 'bridge.enroll.create', enrolment);
    return enrolment;
  });
  app.post<OfNumber>('/enrolments/:number/retire', async (request): Promise<object> => {
    const { id, project, state } = await known(host, doors, request, api);
    await permit(request, 'bridge.enroll.retire', { id, project });
    // One that is over has no id any more: another may have it.
    if (state !== 'retired' && state !== 'failed') await api.retire({ id });
    return {};
  });
}

type Named = Pick<Enrolment, 'id' | 'project'>;

/** Looked up only for who has a token at all. */
async function known(
  host: RoutesHost,
  doors: HttpDoors,
  request: FastifyRequest<OfNumber>,
  api: EnrollApi,
): Promise<Enrolment> {
  const holder = await host.holdToken(doors.tokenOf(request) ?? '');
  holder.stop();
  return api.show(request.params.number);
}

/** @throws AuthenticationError, AuthorizationError ERR_DENIED */
async function permitted(
  host: RoutesHost,
  token: string,
  right: Right,
  { id, project }: Named,
): Promise<void> {
  const { subject, policy, stop } = await host.holdToken(token);
  stop();
  const kwargs = new Map([
    ['id', id],
    ['project', project],
  ]);
  const resource = {
    call: { fun: right, args: [], kwargs },
    isWithin: (target: string) => host.isWithin([id], target),
  };
  const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy);
  if (effect === 'deny') {
    throw new AuthorizationError(`no rule permits ${right} for this id and project`);
  }
  host.audit.append({
    who: actorOf(subject),
    action: 'enroll.asked',
    what: right,
    on: [id],
    rule,
    outcome: 'permitted',
  });
}
