import { type Html, html } from './html.ts';

const width = 160;
const height = 32;
/** Values that a chart has room for. */
const places = 60;

/** A line of values as a small picture; the latest is at the right. */
export function chart(title: string, values: readonly number[]): Html {
  const greatest = Math.max(1e-9, ...values);
  const offset = places - values.length;
  const points = values.map((value, index) => {
    const x = ((index + offset) / (places - 1)) * width;
    const y = height - 1 - (value / greatest) * (height - 2);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const latest = rateText(values.at(-1) ?? 0);
  const label = `${title}: ${latest} a second now, ${rateText(Math.max(0, ...values))} at most`;
  return html`<figure><figcaption>${title} <b>${latest}</b>/s</figcaption>
<svg role="img" aria-label="${label}" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none">
<polyline points="${points.join(' ')}"/></svg></figure>`;
}

function rateText(value: number): string {
  return value >= 10 ? String(Math.round(value)) : value.toFixed(1);
}
