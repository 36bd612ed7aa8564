/** Route `POST /site/v1/left`, with which a site notifies its former centre of the change. */

import type { FastifyInstance } from 'fastify';
import { EdgeError } from '../errors.ts';
import type { CentreConnections } from '../link/centre-connections.ts';
import type { CentreRehoming } from './centre-rehoming.ts';
import { checkLeaveRequest } from './leave-message.ts';

export interface LeaveRouteOptions {
  readonly rehoming: Pick<CentreRehoming, 'leave'>;
  readonly links: Pick<CentreConnections, 'noteRefused'>;
}

/** Adds the route `POST /left`. Limits the rate of rejected requests for each client address. */
export function addLeaveRoute(app: FastifyInstance, { rehoming, links }: LeaveRouteOptions): void {
  app.post('/left', async ({ body, ip }): Promise<object> => {
    try {
      if (checkLeaveRequest.Check(body)) {
        await rehoming.leave(body);
        return {};
      }
      throw new EdgeError('ERR_SITE_MESSAGE', 'the notification of a site is malformed');
    } catch (error) {
      if (error instanceof EdgeError) links.noteRefused(ip);
      throw error;
    }
  });
}
