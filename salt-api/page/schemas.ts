/** Schemas of the routes of the status page, for /openapi.json. */

import type { FastifySchema } from 'fastify';
import Type from 'typebox';
import { describeRoute, usualRefusal } from '../routes/route.ts';

const htmlText = Type.String();
const formAnswer = { bodyTypes: ['application/x-www-form-urlencoded'], status: 303 } as const;

export const pageSchema: FastifySchema = describeRoute({
  summary: 'Status page in HTML; without a session, the log-in page',
  access: 'anybody',
  query: { told: htmlText },
  answer: htmlText,
  answerTypes: ['text/html'],
});

export const assetSchema: FastifySchema = describeRoute({
  summary: 'Style sheet, script or icon of the status page',
  access: 'anybody',
  answer: htmlText,
  answerTypes: ['text/css', 'text/javascript', 'image/svg+xml'],
});

export const explainSchema: FastifySchema = describeRoute({
  summary: 'HTML page that explains why a signal was denied',
  access: 'session',
  query: { minion: htmlText, tag: htmlText },
  answer: htmlText,
  answerTypes: ['text/html'],
});

export const siteSchema: FastifySchema = describeRoute({
  summary: 'HTML page about a site of this centre; requires full rights',
  access: 'session',
  query: { name: htmlText },
  answer: htmlText,
  answerTypes: ['text/html'],
});

export const sectionsSchema: FastifySchema = describeRoute({
  summary: 'Server-sent events with the sections of the status page that have changed',
  access: 'session',
  answer: htmlText,
  answerTypes: ['text/event-stream'],
});

export const pageLoginSchema: FastifySchema = describeRoute({
  summary: 'Logs in with the form of the status page',
  access: 'credentials',
  body: Type.Object({ username: htmlText, password: htmlText, eauth: htmlText }),
  refusal: { ...usualRefusal, 'text/html': htmlText },
  ...formAnswer,
});

export const pageLogoutSchema: FastifySchema = describeRoute({
  summary: 'Logs out with the form of the status page',
  access: 'session',
  body: Type.Object({ form: htmlText }),
  ...formAnswer,
});

export const decideSchema: FastifySchema = describeRoute({
  summary:
    'Accepts or rejects the pending key with this fingerprint, with the form of the status page',
  access: 'session',
  body: Type.Object({
    form: htmlText,
    action: Type.Union([Type.Literal('accept'), Type.Literal('reject')]),
    id: htmlText,
    fingerprint: htmlText,
  }),
  ...formAnswer,
});
