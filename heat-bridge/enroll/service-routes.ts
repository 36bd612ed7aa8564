/** Enrolments over HTTP, for services: each request is judged by the id and the project it names. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Subject } from '../../acl/index.ts';
import {
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  type TokenHolder,
} from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import type { HttpDoors } from '../http/doors.ts';
import { projectOf } from '../keystone/own-project.ts';
import type { EnrollApi } from './api.ts';
import type { Enrolment } from './enrolment.ts';
import { serviceOperations as about } from './operations.ts';
import type { NewEnrolment } from './request.ts';
import { bodyOf } from './routes.ts';
import { serviceEnrolRequest } from './schemas.ts';

/** What the routes ask of their master. */
type RoutesHost = Pick<ExtensionHost, 'audit' | 'decide' | 'holdToken'>;

/** What rules of the action `command` call the rights. */
type Right = 'bridge.enroll.create' | 'bridge.enroll.retire';

interface OfNumber {
  readonly Params: { readonly number: string };
}

const bodyLimit = 524_288;
const createForm = bodyOf(serviceEnrolRequest);

/**
 * `POST enrolments`, `GET enrolments/<number>` and `POST enrolments/<number>/retire`. Whoever asks
 * must be permitted `command` of `bridge.enroll.create` or `bridge.enroll.retire` with the keywords
 * `id` and `project` of the enrolment. A token of Keystone's is good for its own project alone.
 */
export function addServiceRoutes(
  app: FastifyInstance,
  doors: HttpDoors,
  host: RoutesHost,
  api: EnrollApi,
): void {
  const holderOf = async (request: FastifyRequest): Promise<TokenHolder> => {
    const holder = await host.holdToken(doors.tokenOf(request) ?? '');
    holder.stop();
    return holder;
  };
  /** Looked up only for who has a token at all. */
  const known = async (
    request: FastifyRequest<OfNumber>,
  ): Promise<{ readonly holder: TokenHolder; readonly enrolment: Enrolment }> => {
    const holder = await holderOf(request);
    const enrolment = await api.show(request.params.number);
    if (isOfProject(holder.subject, enrolment)) return { holder, enrolment };
    // Another project's is as unknown as one that is not there.
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'there is no enrolment of this number');
  };
  app.post(
    '/enrolments',
    { bodyLimit, config: about.create },
    async (request): Promise<NewEnrolment> => {
      const asked = createForm(request.body);
      const holder = await holderOf(request);
      const project = projectOf(holder.subject, asked.project);
      if (project === undefined) {
        throw new BridgeError('ERR_ENROLL_ARGS', 'project: expected one, as the token says none');
      }
      const wanted = { ...asked, project };
      permit(host, holder, 'bridge.enroll.create', wanted);
      return api.create(wanted);
    },
  );
  app.get<OfNumber>(
    '/enrolments/:number',
    { config: about.show },
    async (request): Promise<Enrolment> => {
      const { holder, enrolment } = await known(request);
      permit(host, holder, 'bridge.enroll.create', enrolment);
      return enrolment;
    },
  );
  app.post<OfNumber>(
    '/enrolments/:number/retire',
    { config: about.retire },
    async (request): Promise<object> => {
      const { holder, enrolment } = await known(request);
      permit(host, holder, 'bridge.enroll.retire', enrolment);
      const { id, state } = enrolment;
      // One that is over has no id any more: another may have it.
      if (state !== 'retired' && state !== 'failed') await api.retire({ id });
      return {};
    },
  );
}

function isOfProject(subject: Subject, { project }: Enrolment): boolean {
  return subject.kind !== 'project' || subject.project.id === project;
}

/** @throws AuthorizationError ERR_DENIED */
function permit(
  host: RoutesHost,
  { subject, policy }: TokenHolder,
  right: Right,
  { id, project }: Pick<Enrolment, 'id' | 'project'>,
): void {
  const kwargs = new Map([
    ['id', id],
    ['project', project],
  ]);
  const resource = {
    call: { fun: right, args: [], kwargs },
    minions: [id],
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
