// Kubernetes label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h`. Grammar and meaning as apimachinery's labels.Parse:
// requirements are joined by "and"; `!=` and `notin` also hold when the label is absent.

/** One requirement on a label. `exists` and `absent` have no values. */
export interface LabelRequirement {
  readonly key: string;
  readonly operator: 'in' | 'notin' | 'exists' | 'absent';
  readonly values: readonly string[];
}

/** All of the requirements; none at all: everything matches. */
export type LabelSelector = readonly LabelRequirement[];

/** Reads a selector; null when the text is none. The empty text selects everything. */
export function parseLabelSelector(text: string): LabelSelector | null {
  if (text.trim() === '') return [];
  const requirements: LabelRequirement[] = [];
  for (const part of splitOutsideParentheses(text)) {
    const requirement = parseRequirement(part.trim());
    if (requirement === null) return null;
    requirements.push(requirement);
  }
  return requirements;
}

/** Whether an object with these labels is selected. */
export function matchesLabels(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  return selector.every((requirement) => holds(requirement, Object.hasOwn(labels, requirement.key) ? labels[requirement.key] : undefined));
}

function holds(requirement: LabelRequirement, value: string | undefined): boolean {
  const named = value !== undefined && requirement.values.includes(value);
  switch (requirement.operator) {
    case 'exists':
      return value !== undefined;
    case 'absent':
      return value === undefined;
    case 'in':
      return named;
    default:
      return !named;
  }
}

function splitOutsideParentheses(text: string): string[] {
  const parts: string[] = [];
  let from = 0;
  let inside = false;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '(') inside = true;
    else if (text[at] === ')') inside = false;
    else if (text[at] === ',' && !inside) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return [...parts, text.slice(from)];
}

const EQUALITY = /^([^\s=!,()]+)\s*(==|=|!=)\s*([^\s=!,()]*)$/;
const MEMBERSHIP = /^([^\s=!,()]+)\s+(in|notin)\s*\(([^()]*)\)$/;
const PRESENCE = /^(!?)\s*([^\s=!,()]+)$/;

function parseRequirement(text: string): LabelRequirement | null {
  const equality = EQUALITY.exec(text);
  if (equality !== null) return checked(equality[1], equality[2] === '!=' ? 'notin' : 'in', [equality[3] ?? '']);
  const membership = MEMBERSHIP.exec(text);
  if (membership !== null) return checked(membership[1], membership[2] === 'in' ? 'in' : 'notin', valuesOf(membership[3] ?? ''));
  const presence = PRESENCE.exec(text);
  return presence === null ? null : checked(presence[2], presence[1] === '!' ? 'absent' : 'exists', []);
}

function valuesOf(list: string): string[] {
  return list.split(',').map((value) => value.trim());
}

function checked(key: string | undefined, operator: LabelRequirement['operator'], values: readonly string[]): LabelRequirement | null {
  return key !== undefined && isLabelKey(key) && values.every(isLabelValue) ? { key, operator, values } : null;
}

const NAME = /^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

function isLabelKey(key: string): boolean {
  const [name = '', prefix, ...rest] = key.split('/').toReversed();
  if (rest.length > 0 || !NAME.test(name)) return false;
  return prefix === undefined || (prefix.length <= 253 && SUBDOMAIN.test(prefix));
}

function isLabelValue(value: string): boolean {
  return value === '' || NAME.test(value);
}
